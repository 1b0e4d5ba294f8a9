"""Speed of the run, its time breakdown, and its slowest rank."""

from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import thresholds
from grafana.boards.run.queries import (
    OF_RANKS,
    PHASES,
    RANKS,
    RATIO,
    RUN,
    WORK,
    curves,
    of_rule,
    of_run,
    result_or,
    result_or_value,
    until_end,
    while_running,
)
from grafana.graphs import figure, heat_map, lines, stacked_bars
from grafana.line import newest_kept
from grafana.panels import PHASE_COLOURS
from grafana.queries import (
    DURATION,
    by,
    called,
    column,
    duration,
    graph,
    latest,
    newest_in_step,
    rate,
    value,
)
from grafana.transformations import matrix, organized, sorted_by
from mlbench.contract import names

# Sums over all ranks. If a run starts or ends within a step, both rates are equally low.
THROUGHPUT: Final = (
    f"sum by (run_id) ({rate(f'mlbench_worker_samples_total{{{RUN}}}')})"
    f" / avg by (run_id) ({rate(f'mlbench_worker_step_seconds_sum{{{RUN}}}')})"
)

_PHASE_SHARES = f"run_phase:mlbench_worker_phase_seconds:share1m{{{RUN}}}"
_COMMUNICATION = f"run:mlbench_worker_communication:share1m{{{RUN}}}"
_OWN_WORK = f"sum by (rank) ({latest(of_run(WORK))})"
_PHASES = by("rank, metric", latest(f'mlbench_run_metric{{{RANKS},metric=~"{PHASES}"}}'))
_TRAINED = by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.TRAIN_SECONDS}"}}'))
_IN_TRAINING = f"sum by (rank) ({latest(of_run(f'{WORK}|communication_seconds'))})"
# Training time outside of all phases, as in the result.
_OTHER = called("metric", "other_seconds", f"clamp_min({_TRAINED} - on (rank) {_IN_TRAINING}, 0)")
_SECONDS = f"({_PHASES} or {_OTHER})"
_SHARES = (
    "label_replace(label_replace("
    f"{_SECONDS} / on (rank) group_left () sum by (rank) {_SECONDS}"
    f" and on (rank) (topk(5, {_OWN_WORK}) or bottomk(5, {_OWN_WORK}))"
    ', "phase", "$1", "metric", "(.*)_seconds"), "rank", "rank $1", "rank", "(.*)")'
)
_RECORDED = f'mlbench_run_samples{{{RUN},place="recorded"}}'
_DELIVERED = f'mlbench_run_samples{{{RUN},place!="recorded"}}'
_MISSING = f"sum by (run_id) ({latest(_RECORDED)}) - sum by (run_id) ({latest(_DELIVERED)})"

_EPOCH = by("run_id", newest_kept(RUN, f'metric="{names.EPOCH}"'))
_SHARE: dict[str, object] = {"unit": "percentunit", "decimals": 1}
SPEED: Final = (
    lines(
        "Throughput",
        "Training samples a second, all ranks together, evaluation left out. It should be level. "
        "Gaps are times without a step.",
        graph(curves({"samples/s": THROUGHPUT}), "{{curve}}"),
        unit="short",
        no_value="None was scraped in this range",
    ),
    lines(
        "Where the time goes",
        "Share of each phase in the time of the last minute, all ranks together. What "
        "is not forward, backward or optimizer is the price of training on several workers.",
        graph(while_running(newest_in_step(_PHASE_SHARES), "phase"), "{{phase}}"),
        unit="percentunit",
        most=1,
        stacked=True,
        overrides=PHASE_COLOURS,
        no_value="None was scraped in this range",
    ),
    stacked_bars(
        "Where each rank's time went",
        "Share of each phase in a rank's time, of the whole run so far, evaluation included; other "
        "is training in none of them. The rank that waits least comes first: in synchronous "
        "training the others wait for it. Of many ranks, the five that work the most and the five "
        "that work the least.",
        column("phases", _SHARES),
        x="rank",
        unit="percentunit",
        most=1,
        width=8,
        height=8,
        transformations=[
            *matrix("rank", "phase", "Value", x="rank"),
            organized(("rank", *names.PHASES, "other"), {}),
            sorted_by("communication"),
        ],
        overrides=PHASE_COLOURS,
        no_value="No phases in this range",
    ),
    lines(
        "Compute time of a step, times the median of the other ranks",
        "A rank's own work in a step, times the median of the other ranks: all phases but "
        "communication, evaluation and restore. Above the dashed line a rank holds up all others; "
        "the alert MLBenchStraggler names it if it stays there. Of many ranks: the slowest five, "
        "and the band of all.",
        of_rule(RATIO),
        unit="suffix: times",
        decimals=2,
        width=16,
        least=0.8,
        data_points=100,
        limits=thresholds.STRAGGLER,
        overrides=OF_RANKS,
        no_value="None of several ranks was scraped in this range",
    ),
    figure(
        "Progress",
        "For how long the run has run, or ran; its epoch; how long ago the rank that is furthest "
        "behind did its last step: if that is over 30 s, and over 30 of its usual steps, the alert "
        "MLBenchRunStalled fires. Communication: the share of the training time that ranks spend "
        "on exchanging gradients, waiting for each other included: of the last minute, or of a "
        "whole run that has ended. A high share says that more workers will not help much. Missing "
        "values: recorded, but neither in Prometheus nor kept in the database because Prometheus "
        "cannot hold them. There should be none; at the end they are counted.",
        value(duration(f"{{{RUN}}}"), "elapsed"),
        value(result_or_value(f"{_EPOCH} + 1", names.RUN_EPOCHS), "epoch"),
        value(f"run:mlbench_worker_progress:age_seconds{{{RUN}}}", "last step ago"),
        value(result_or(_COMMUNICATION, names.RUN_COMMUNICATION), "communication"),
        value(_MISSING, "missing values"),
        height=8,
        size=20,
        show=BigValueTextMode.VALUE_AND_NAME,
        decimals=0,
        overrides={
            "elapsed": {"unit": DURATION},
            "last step ago": {"unit": "s", "thresholds": thresholds.PROGRESS_AGE},
            "communication": _SHARE | {"thresholds": thresholds.COMMUNICATION},
            "missing values": {"thresholds": thresholds.ANY_IS_BAD},
        },
        width=8,
        no_value="Not started in this range",
    ),
)

_STEPS: Final = (
    f"sum by (run_id, rank) ({rate(f'mlbench_worker_step_seconds_sum{{{RANKS}}}')})"
    f" / (sum by (run_id, rank) ({rate(f'mlbench_worker_step_seconds_count{{{RANKS}}}')}) > 0)"
)
# Prometheus sorts labels as texts, so numbers are padded to the same length.
_IN_ORDER: Final = (
    f'label_replace(label_replace({until_end(_STEPS)}, "rank", "0000$1", "rank", "(.*)"),'
    ' "rank", "rank $1", "rank", ".*(.{4})")'
)
STEP_TIMES: Final = heat_map(
    "Step time of each rank",
    "Mean time of a step, evaluation left out, of each rank over time: the darker, the longer. A "
    "dark column is a time in which all were slow, as ranks that exchange gradients wait for each "
    "other; a dark row is a rank that is slow by itself.",
    graph(_IN_ORDER, "{{rank}}"),
    unit="s",
    no_value="None was scraped in this range",
)
