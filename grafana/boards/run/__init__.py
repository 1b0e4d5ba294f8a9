"""Page of one run, from its target to the resources of each worker."""

from typing import Final

from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.annotations import firing
from grafana.board import Board, Row
from grafana.boards.run.headline import HEADLINE
from grafana.boards.run.learning import BY_STEP, LEARNING
from grafana.boards.run.queries import (
    FIRING,
    PHASES,
    RUN,
    TRAIN_ACCURACY,
    TRAIN_LOSS,
    VAL_ACCURACY,
    VAL_LOSS,
    band_of,
    curves,
    named_alerts,
)
from grafana.boards.run.ranks import MASTER, MORE_RESOURCES, RANK_TABLE, RESOURCES
from grafana.boards.run.speed import SPEED, STEP_TIMES
from grafana.graphs import lines, timeline
from grafana.panels import band
from grafana.queries import by, called, graph, in_each_step, moment, recorded
from mlbench.contract import names

# Metrics that have their own panel, and totals. All others get a repeated panel at the end.
SHOWN: Final = "|".join(
    (TRAIN_LOSS, VAL_LOSS, TRAIN_ACCURACY, VAL_ACCURACY, *names.OF_EACH_STEP, PHASES)
)

# Time range of the run for links, in milliseconds.
_CREATED, _STARTED, _FINISHED = (
    moment(event, f"{{{RUN}}}") for event in ("created", "started", "finished")
)
SPAN: Final = (
    f'label_join(count_values by (run_id) ("from", floor({_STARTED} - 2) * 1000)'
    f" * on (run_id) group_left (to)"
    f' (count_values by (run_id) ("to", ceil({_FINISHED} + 10) * 1000)'
    f" or on (run_id) {called('to', 'now', _CREATED)} * 0 + 1"
    '), "span", "&to=", "from", "to")'
)

# Rules are evaluated less often than a short range has points.
_FIRED = f"({in_each_step(FIRING, 'max')} or {FIRING} offset -$__interval)"
_CRITICAL = called("severity", "critical", "vector(1)")
_SEVERITY = named_alerts(f"({_FIRED} + on (severity) group_left () {_CRITICAL} or {_FIRED})")
_OF_RANK = f'label_replace({_SEVERITY}, "rank", "rank $1", "rank", "(.+)")'
_WHICH = by("alert, alertname, rank", _OF_RANK)
ALERTS: Final = timeline(
    "Alerts over time",
    "Alerts of this run over time, with the rank. Click one for its runbook.",
    graph(
        _WHICH,
        "{{alert}} {{rank}}",
    ),
    mappings=thresholds.FIRING,
    height=5,
    no_value="No alert in this time range",
    overrides={"/.*/": {"links": [links.RUNBOOK_OF_SERIES]}},
)

OTHERS: Final = lines(
    "$other_metric",
    "A metric that the run's code records: mean of all ranks, with a band from the lowest to the "
    "highest.",
    recorded(curves(band_of("$other_metric", "mean")), "{{curve}}"),
    unit="short",
    width=6,
    least=None,
    overrides=band("lowest", "highest"),
    repeat="other_metric",
    no_value="The run records no other metrics",
)

BOARD: Final = Board(
    uid="mlbench-run",
    title="MLBench / Run",
    description="One run: progress to the target, throughput, time breakdown and stragglers.",
    source="grafana/boards/run/",
    time_from="now-15m",
    history=False,
    variables=(
        variables.run(),
        variables.query(
            "rank",
            "Ranks",
            f"label_values(mlbench_run_metric{{{RUN}}}, rank)",
            multi=True,
            all_value=".*",
            sort=VariableSort.NUMERICAL_ASC,
            description="Ranks shown in the panels per rank.",
        ),
        variables.query(
            "target",
            "Target metric",
            f"label_values(mlbench_run_target{{{RUN}}}, metric)",
            hidden=True,
        ),
        variables.query(
            "other_metric",
            "Other metrics",
            f'label_values(mlbench_run_metric{{{RUN},metric!~"{SHOWN}"}}, metric)',
            multi=True,
            hidden=True,
        ),
        variables.query(
            "span", "Span", f"query_result({SPAN})", hidden=True, regex='/span="(?<value>[^"]+)"/'
        ),
        variables.master(),
    ),
    links=[links.above(link) for link in (links.WEB_PAGE, links.WHOLE_RUN)],
    annotations=[firing("Loss not finite", "MLBenchLossNotFinite", RUN)],
    runs=RUN,
    rows=(
        Row("Run ${run_id:text}", HEADLINE),
        Row("Learning", LEARNING),
        Row("Throughput and time breakdown", SPEED),
        Row("Ranks and logs", (RANK_TABLE, MASTER)),
        Row("Worker resources", RESOURCES),
        Row("Step times per rank", (STEP_TIMES,), collapsed=True),
        Row("Alerts over time", (ALERTS,), collapsed=True),
        Row("Learning by step", BY_STEP, collapsed=True),
        Row("CPU limit, GPUs, network and disk", MORE_RESOURCES, collapsed=True),
        Row("Other recorded metrics", (OTHERS,), collapsed=True),
    ),
)
