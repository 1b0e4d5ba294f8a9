"""Run detail: one run, from its goal down to the resources of each of its workers."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import Panel, VariableSort

from grafana import links, thresholds, variables
from grafana.annotations import run_events
from grafana.board import Board, Row
from grafana.figures import bars, dial, figure
from grafana.graphs import against, lines, timeline
from grafana.panels import Overrides, band, dashed, repeated, words
from grafana.queries import (
    CORES,
    RECORDED_INTERVAL,
    by,
    column,
    graph,
    history,
    latest,
    progress,
    recorded,
    value,
    while_running,
)
from grafana.tables import Column, rows
from grafana.transformations import over
from mlbench import names

RUN: Final = 'run_id="$run_id"'
RANKS: Final = f'{RUN},rank=~"$rank"'

# What has a panel of its own, or is a total. All else that the run records is repeated below.
SHOWN: Final = "|".join(
    (
        names.TRAIN_LOSS,
        names.TRAIN_ACCURACY,
        names.VAL_ACCURACY,
        names.LEARNING_RATE,
        names.EPOCH,
        names.STEP,
        names.SAMPLES,
        names.TRAIN_SECONDS,
        *(names.phase_metric(phase) for phase in names.PHASES),
    )
)


def _moment(event: str) -> str:
    return by("run_id", latest(f"mlbench_run_{event}_timestamp_seconds{{{RUN}}}"))


def _newest(metric: str) -> str:
    return by("run_id", latest(f'mlbench_run_metric{{{RUN},metric="{metric}"}}'))


def _over_ranks(metric: str) -> dict[str, str]:
    """Return the mean and the extremes of a recorded metric: as many curves for any world size."""
    selector = f'mlbench_run_metric{{{RANKS},metric=~"{metric}"}}'
    return {
        curve: while_running(f"{aggregate} by (run_id) ({selector})", RUN)
        for curve, aggregate in (("mean", "avg"), ("lowest", "min"), ("highest", "max"))
    }


_PHASES = "|".join(names.phase_metric(phase) for phase in names.PHASES)
_BAND = band("lowest", "highest")
_LOSS = _over_ranks(names.TRAIN_LOSS)
_ACCURACY = {
    "validation": _over_ranks(names.VAL_ACCURACY)["mean"],
    "training": _over_ranks(names.TRAIN_ACCURACY)["mean"],
    "goal": while_running(
        by("run_id", f'mlbench_run_goal{{{RUN},metric="{names.VAL_ACCURACY}"}}'), RUN
    ),
}
_GOAL_MARK = {"goal": dashed(thresholds.GREEN)}


def _by_step(
    title: str,
    description: str,
    curves: Mapping[str, str],
    *,
    unit: str,
    metrics: str,
    overrides: Overrides,
) -> Panel:
    """Return curves over the step, from when on one of the metrics is known."""
    steps = (
        f'max by (run_id) (mlbench_run_metric{{{RUN},metric="{names.STEP}"}})'
        f' and on (run_id) mlbench_run_metric{{{RUN},metric=~"{metrics}"}}'
    )
    return against(
        title,
        description,
        history("step", while_running(steps, RUN), RECORDED_INTERVAL),
        *(history(curve, expr, RECORDED_INTERVAL) for curve, expr in curves.items()),
        x="step",
        unit=unit,
        x_unit="none",
        width=6,
        transformations=over("step", list(curves)),
        overrides=overrides,
    )


def _of_its_pods(expr: str) -> str:
    """Return a figure of each pod, only while it works for the run, with the rank that it has."""
    ranks = by("pod, rank", f"mlbench_worker_info{{{RANKS}}}")
    return f"sum by (pod) ({expr}) * on (pod) group_left (rank) {ranks}"


def _by_rank(expr: str) -> str:
    """Return a figure of each rank with the pod that it runs on."""
    pods = f"run_rank_pod:mlbench_worker_info:last30s{{{RANKS}}}"
    return f"{expr} * on (run_id, rank) group_left (pod) {pods}"


_GOAL = by("run_id, metric", latest(f"mlbench_run_goal{{{RUN}}}"))
_GOAL_VALUE = by("run_id, metric", latest(f'mlbench_run_metric{{{RUN},metric="$goal"}}'))
_PROGRESS = progress(_GOAL_VALUE, _GOAL, _moment("goal_reached"))
_ELAPSED = (
    f"({_moment('finished')} or on (run_id) {_moment('started')} * 0 + time())"
    f" - on (run_id) {_moment('started')}"
)

HEADLINE: Final = (
    figure(
        "State",
        "Where the run is: waiting for workers (INITIALIZED), training (STARTED), or ended.",
        column("states", by("run_id, state", latest(f"mlbench_run_state{{{RUN}}}")) + " == 1"),
        unit="none",
        field="/^state$/",
        mappings=thresholds.RUN_STATE,
        no_value="Unknown run",
    ),
    figure(
        "Goal",
        "The metric that the run wants to bring to a value, and that value.",
        value(_GOAL, "{{metric}}"),
        unit="short",
        width=4,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="The run has stated no goal",
    ),
    dial(
        "Progress to goal",
        "How near the newest value is to the goal, whether higher or lower is better. "
        "100 % once the goal has been reached.",
        value(_PROGRESS, "progress"),
        unit="percentunit",
        colours=thresholds.GOAL_PROGRESS,
        width=3,
        no_value="No goal, or no value yet",
    ),
    figure(
        "Time to goal",
        "Training time until the goal was reached, evaluation left out: the result of the run.",
        value(by("run_id", latest(f"mlbench_run_time_to_goal_seconds{{{RUN}}}")), "time to goal"),
        unit="s",
        decimals=1,
        colours=thresholds.GOOD,
        no_value="Not reached",
    ),
    figure(
        "Elapsed",
        "Time since the run's start, up to its end if it has ended.",
        value(_ELAPSED, "elapsed"),
        unit="s",
        decimals=0,
        no_value="Not started",
    ),
    figure(
        "Epoch and step",
        "The epoch and the training step that the run has come to.",
        value(_newest(names.EPOCH), "epoch"),
        value(_newest(names.STEP), "step"),
        unit="none",
        decimals=0,
        no_value="No step recorded",
    ),
    figure(
        "Delivery",
        "Recorded values and where they are: in Prometheus, or kept in the database because "
        "Prometheus cannot hold them. At the end recorded is the sum of both, or values are lost.",
        value(by("place", latest(f"mlbench_run_samples{{{RUN}}}")), "{{place}}"),
        value(by("run_id", f"mlbench_run_waiting_bytes{{{RUN}}}"), "waiting"),
        unit="none",
        decimals=0,
        width=5,
        overrides={"waiting": {"unit": "bytes"}},
        no_value="Nothing delivered yet",
    ),
)

LEARNING: Final = (
    lines(
        "Train loss by time",
        "Loss of each training step: the mean of all ranks, and the band between the lowest and "
        "the highest. It should fall; a band that widens says that the ranks drift apart.",
        *(recorded(expr, curve) for curve, expr in _LOSS.items()),
        unit="short",
        width=6,
        least=None,
        overrides=_BAND,
        no_value="The run records no train_loss",
    ),
    _by_step(
        "Train loss by step",
        "The same loss over the training step. Where a run was restarted from a checkpoint, a "
        "step shows the value of the later attempt.",
        _LOSS,
        unit="short",
        metrics=names.TRAIN_LOSS,
        overrides=_BAND,
    ),
    lines(
        "Accuracy by time",
        "Share of images that are classified correctly: of the whole validation set after each "
        "epoch, and of the training images as they come. Dashed: the goal.",
        *(recorded(expr, curve) for curve, expr in _ACCURACY.items()),
        unit="percent",
        width=6,
        overrides=_GOAL_MARK,
        no_value="The run records no Prec@1",
    ),
    _by_step(
        "Accuracy by step",
        "The same accuracies over the training step: at each step, the newest that is known.",
        _ACCURACY,
        unit="percent",
        metrics=f"{names.VAL_ACCURACY}|{names.TRAIN_ACCURACY}",
        overrides=_GOAL_MARK,
    ),
)

SPEED: Final = (
    lines(
        "Throughput",
        "Training samples a second, all ranks together, over the last minute. It should be level; "
        "it falls to nothing while the run evaluates or stands still.",
        graph(while_running(f"run:mlbench_worker_samples:rate1m{{{RUN}}}", RUN), "samples/s"),
        unit="short",
        width=6,
        no_value="The run's code does not count its samples with mlbench.Tracker",
    ),
    lines(
        "Learning rate",
        "The learning rate that each step was done with.",
        recorded(_over_ranks(names.LEARNING_RATE)["mean"], "learning rate"),
        unit="sci",
        width=6,
        no_value="The run records no learning_rate",
    ),
    figure(
        "Communication share",
        "Share of the training time that ranks spend on exchanging gradients, waiting for each "
        "other included. A high share says that more workers will not help much.",
        graph(
            f"run:mlbench_worker_communication:share1m{{{RUN}}}",
            "communication",
        ),
        unit="percentunit",
        decimals=1,
        width=3,
        height=8,
        colours=thresholds.COMMUNICATION,
        sparkline=True,
        no_value="No phases counted",
    ),
    figure(
        "Slowest rank against the median",
        "How many times as long the slowest rank computes for a step as the median rank. Only its "
        "own work counts, so a rank that waits for another is not blamed. Around 1 is good.",
        graph(f"run:mlbench_worker_straggler:ratio1m{{{RUN}}}", "slowest"),
        unit="none",
        decimals=2,
        width=3,
        height=8,
        colours=thresholds.STRAGGLER,
        sparkline=True,
        no_value="No steps counted",
    ),
    figure(
        "Last progress",
        "How long ago the rank that is furthest behind did its last step. Over 30 s, and over 30 "
        "of its usual steps, the alert MLBenchRunStalled fires.",
        value(f"run:mlbench_worker_progress:age_seconds{{{RUN}}}", "age"),
        unit="s",
        decimals=0,
        width=3,
        height=8,
        colours=thresholds.PROGRESS_AGE,
        no_value="No rank of the run is training",
    ),
    figure(
        "Alerts of this run",
        "How many alerts fire for this run now. The timeline at the end of the page names them.",
        value(f'count(ALERTS{{{RUN},alertstate="firing"}}) or vector(0)', "firing"),
        unit="none",
        width=3,
        height=8,
        colours=thresholds.ANY_IS_BAD,
    ),
)

STEPS: Final = (
    lines(
        "Step time by rank",
        "Duration of a training step over the last minute: the median, and the 95th percentile "
        "that one step in twenty exceeds. All ranks wait for the slowest, so they should agree.",
        *(
            graph(
                f"run_rank:mlbench_worker_step_seconds:{quantile}_1m{{{RANKS}}}",
                f"rank {{{{rank}}}} {quantile}",
            )
            for quantile in ("p50", "p95")
        ),
        unit="s",
        table=True,
        no_value="The run's code does not count its steps with mlbench.Tracker",
    ),
    lines(
        "Where the time goes",
        "Share of each phase in the training time of the last minute, all ranks together. What "
        "is not forward, backward or optimizer is the price of training on several workers.",
        graph(
            f"run_phase:mlbench_worker_phase_seconds:share1m{{{RUN}}}",
            "{{phase}}",
        ),
        unit="percentunit",
        most=1,
        stacked=True,
        no_value="The run's code does not time phases with mlbench.Tracker",
    ),
    bars(
        "Where the time went",
        "Seconds of each phase over the whole run, the mean of its ranks: recorded after each "
        "epoch and at the end.",
        value(
            "sort_desc(avg by (phase) (label_replace("
            + latest(f'mlbench_run_metric{{{RANKS},metric=~"{_PHASES}"}}')
            + ', "phase", "$1", "metric", "(.*)_seconds")))',
            "{{phase}}",
        ),
        unit="s",
        decimals=1,
        no_value="The run records no phases",
    ),
    lines(
        "Compute time of a step by rank",
        "A rank's own work in a step against the median rank of the run: all phases but "
        "communication and evaluation. Above the dashed line a rank holds up all others; the alert "
        "MLBenchStraggler names it if it stays there.",
        graph(
            _by_rank(f"run_rank:mlbench_worker_straggler:ratio1m{{{RANKS}}}"),
            "rank {{rank}} on {{pod}}",
        ),
        unit="none",
        decimals=2,
        width=12,
        least=0.8,
        table=True,
        limits=thresholds.STRAGGLER,
        no_value="No steps counted",
    ),
    lines(
        "Time since the last step by rank",
        "How long ago each rank made progress. A rank whose line climbs stands still, and with it, "
        "soon, all others.",
        graph(
            _by_rank(f"run_rank:mlbench_worker_progress:age_seconds{{{RANKS}}}"),
            "rank {{rank}} on {{pod}}",
        ),
        unit="s",
        width=12,
        table=True,
        no_value="No rank of the run is training",
    ),
)

RANK_TABLE: Final = rows(
    "Ranks",
    "Each rank of the run: where it ran, how far it came, how fast it was, and what it wrote.",
    column("info", by("rank, pod", latest(f"mlbench_worker_info{{{RANKS}}}"))),
    column("running", by("rank", latest(f"mlbench_worker_running{{{RANKS}}}"))),
    column("step", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.STEP}"}}'))),
    column(
        "samples", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.SAMPLES}"}}'))
    ),
    column("p50", by("rank", latest(f"run_rank:mlbench_worker_step_seconds:p50_1m{{{RANKS}}}"))),
    column("p95", by("rank", latest(f"run_rank:mlbench_worker_step_seconds:p95_1m{{{RANKS}}}"))),
    column("ratio", by("rank", latest(f"run_rank:mlbench_worker_straggler:ratio1m{{{RANKS}}}"))),
    column(
        "loss", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.TRAIN_LOSS}"}}'))
    ),
    columns=(
        Column("rank", width=70, links=(links.log_of_rank("stdout"), links.log_of_rank("stderr"))),
        Column("pod", width=240),
        Column("running", "process", mappings=thresholds.PROCESS),
        Column("step", unit="none", decimals=0),
        Column("samples", unit="none", decimals=0),
        Column("p50", "step p50", unit="s"),
        Column("p95", "step p95", unit="s"),
        Column("ratio", "against median", unit="none", decimals=2, colours=thresholds.STRAGGLER),
        Column("loss", "train loss", unit="short"),
    ),
    sort_by="rank",
    width=17,
    no_value="The run has got no worker",
)

MASTER: Final = words(
    "Logs and downloads",
    "What the master holds of this run. The browser asks for the token, as a password.",
    """\
[End of rank 0's output](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stdout&tail=1000) \
· [and its errors](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stderr&tail=1000)

Every recorded value, with the resource use of the run's pods: \
[zip](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=zip) \
· [csv](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=csv) \
· [json](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=json)

[The run as the API shows it](${master:raw}/api/runs/${run_id}/)

A click on a rank in the table leads to its logs. The browser asks for a password: the token in \
the address that `mlbench up` prints. In a terminal: `mlbench logs ${run_id}`, \
`mlbench download ${run_id}`.
""",
    width=7,
    height=9,
)

_RATE = "[$__rate_interval]"
RESOURCES: Final = (
    lines(
        "CPU cores by worker",
        "Processor cores that each worker uses. Two workers on a machine of two cores have to "
        "share them; a worker below its share waits for something.",
        graph(
            _of_its_pods(f"rate(container_cpu_usage_seconds_total{_RATE})"), "rank {{rank}} {{pod}}"
        ),
        unit=CORES,
        width=12,
        table=True,
    ),
    lines(
        "Memory by worker",
        "Memory that each worker holds and that cannot be freed. A curve that climbs all the "
        "time is a leak; at its limit, if it has one, a worker is killed.",
        graph(_of_its_pods("container_memory_working_set_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
        width=12,
        table=True,
    ),
    lines(
        "Network by worker",
        "Bytes a second that each worker receives (above) and sends (below).",
        graph(
            _of_its_pods(f"rate(container_network_receive_bytes_total{_RATE})"),
            "rank {{rank}} receives",
        ),
        graph(
            "-(" + _of_its_pods(f"rate(container_network_transmit_bytes_total{_RATE})") + ")",
            "rank {{rank}} sends",
        ),
        unit="Bps",
        width=12,
        least=None,
        table=True,
        no_value="Not known: the workers share the network of their machine",
    ),
    lines(
        "Disk by worker",
        "Bytes a second that each worker reads from disk (above) and writes to it (below).",
        graph(_of_its_pods(f"rate(container_fs_reads_bytes_total{_RATE})"), "rank {{rank}} reads"),
        graph(
            "-(" + _of_its_pods(f"rate(container_fs_writes_bytes_total{_RATE})") + ")",
            "rank {{rank}} writes",
        ),
        unit="Bps",
        width=12,
        least=None,
        table=True,
    ),
)

GPU: Final = (
    lines(
        "GPU use by worker",
        "Share of the time in which a GPU computes. Below 80 % the workers wait for data or for "
        "each other.",
        graph(_of_its_pods("mlbench_gpu_utilization_ratio"), "rank {{rank}} {{pod}}"),
        unit="percentunit",
        most=1,
        no_value="The run uses no GPU",
    ),
    lines(
        "GPU memory by worker",
        "Memory of its GPUs that each worker holds.",
        graph(_of_its_pods("mlbench_gpu_memory_used_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
        no_value="The run uses no GPU",
    ),
    lines(
        "GPU power by worker",
        "Power that each worker's GPUs draw.",
        graph(_of_its_pods("mlbench_gpu_power_watts"), "rank {{rank}} {{pod}}"),
        unit="watt",
        no_value="The run uses no GPU",
    ),
)

ALERTS: Final = timeline(
    "Alerts over time",
    "When which alert fired for this run. Its runbook is in docs/runbooks, in a file of its name.",
    graph(
        f'max by (alertname, severity, rank) (ALERTS{{{RUN},alertstate="firing"}})',
        "{{alertname}} {{severity}} {{rank}}",
    ),
    mappings=thresholds.FIRING,
    height=5,
    no_value="No alert fired for this run",
)

OTHERS: Final = repeated(
    lines(
        "$other_metric",
        "A metric that the run's code records: the mean of all ranks, and the band between the "
        "lowest and the highest.",
        *(recorded(expr, curve) for curve, expr in _over_ranks("$other_metric").items()),
        unit="short",
        width=6,
        least=None,
        overrides=_BAND,
        no_value="The run records nothing else",
    ),
    "other_metric",
    per_line=4,
)

BOARD: Final = Board(
    uid="mlbench-run",
    title="MLBench / Run",
    description="One run: how near its goal, how fast, where its time goes, what holds it up.",
    source="grafana/boards/run.py",
    time_from="now-15m",
    history=False,
    variables=(
        variables.datasource(),
        variables.run(),
        variables.query(
            "rank",
            "Ranks",
            f"label_values(mlbench_run_metric{{{RUN}}}, rank)",
            multi=True,
            all_value=".*",
            sort=VariableSort.NUMERICAL_ASC,
            description="Which ranks to show, where a panel shows ranks.",
        ),
        variables.query(
            "goal",
            "Goal metric",
            f"label_values(mlbench_run_goal{{{RUN}}}, metric)",
            hidden=True,
        ),
        variables.query(
            "other_metric",
            "Other metrics",
            f'label_values(mlbench_run_metric{{{RUN},metric!~"{SHOWN}"}}, metric)',
            multi=True,
            hidden=True,
        ),
        variables.master(),
    ),
    annotations=run_events(RUN),
    rows=(
        Row("Run ${run_id:text}", HEADLINE),
        Row("Learning", LEARNING),
        Row("Speed", SPEED),
        Row("Steps, phases, stragglers", STEPS),
        Row("Ranks and logs", (RANK_TABLE, MASTER)),
        Row("Resources of the run's workers", RESOURCES),
        Row("GPUs of the run's workers", GPU, collapsed=True),
        Row("Alerts", (ALERTS,)),
        Row("Everything else that the run records", (OTHERS,)),
    ),
)
