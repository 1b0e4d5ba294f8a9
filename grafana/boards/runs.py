"""The page of all runs: the results, the active run, and the queue."""

from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.figures import dial, figure
from grafana.graphs import lines
from grafana.panels import Overrides
from grafana.queries import (
    by,
    column,
    duration,
    ever,
    in_each_step,
    latest,
    moment,
    named,
    or_none,
    progress,
    recorded,
    value,
)
from grafana.tables import Column, rows
from mlbench.palette import BLUE, GREY

_ACTIVE: Final = 'max by (run_id) (mlbench_run_state{state="STARTED"}) == 1'
_QUEUED: Final = 'max by (run_id) (mlbench_run_state{state="INITIALIZED"}) == 1'
_RUNS: Final = 'benchmark=~"$benchmark"'
_CHOSEN: Final = latest(f"mlbench_run_info{{{_RUNS}}}")


def _info(runs: str) -> str:
    return by("run_id, run, benchmark, backend", named(runs))


def _active(expr: str) -> str:
    return f"{expr} and on (run_id) ({_ACTIVE})"


def _shown(expr: str) -> str:
    """Return a value for each run that the variables choose."""
    return f"{by('run_id', expr)} and on (run_id) {_CHOSEN}"


def _samples(places: str) -> str:
    held = latest(f'mlbench_run_samples{{place=~"{places}"}}')
    return f"sum by (run_id) ({held})"


_GOAL = by("run_id, metric", latest('mlbench_run_goal{metric=~"$goals"}'))
_RESULT = (
    by("run_id, metric", latest('mlbench_run_metric{metric=~"$goals"}'))
    + f" and on (run_id, metric) {_GOAL}"
)
_PROGRESS = progress(_RESULT, _GOAL, moment("goal_reached"))
_VALUE = by("run_id, metric", in_each_step('mlbench_run_metric{metric=~"$goals"}'))
_DOTS: Final[Overrides] = {"/.*/": {"custom.showPoints": "always", "custom.spanNulls": True}}
# The time range of a run's own page: a little longer than the run, for its last scrapes.
_FROM = f"(({moment('started')} or on (run_id) {moment('created')}) - 5) * 1000"
_TO = f"({moment('finished')} + 30) * 1000 or on (run_id) {moment('created')} * 0"

ALL: Final = rows(
    "All runs",
    "Every run that the time range has seen, of the newest hundred. A click on a run leads to its "
    "detail, over the run's own time. Result and samples/s are the newest of the time range. "
    "Waited: the rank that waited most for others' programs did so for this part of the time; red "
    "is a disturbed run. Missing is what was recorded and is neither in Prometheus nor kept: 0, or "
    "something is wrong.",
    column("info", or_none(_info(_CHOSEN), "run", "None in this time range")),
    column(
        "states",
        f"{by('run_id, state', latest('mlbench_run_state'))} == 1 and on (run_id) {_CHOSEN}",
    ),
    column("result", _shown(_RESULT)),
    column("goal", _shown(_GOAL)),
    column("time_to_goal", _shown(latest("mlbench_run_time_to_goal_seconds"))),
    column("throughput", _shown(latest("run:mlbench_run_throughput:mean"))),
    column(
        "waited",
        _shown("avg_over_time(run_rank:mlbench_worker_disturbed:share1m[$__range])"),
    ),
    column("duration", _shown(duration())),
    column("workers", _shown(latest("mlbench_run_workers"))),
    column("started", _shown(f"{moment('started')} * 1000")),
    column("missing", _shown(f"{_samples('recorded')} - {_samples('in_prometheus|kept')}")),
    column("attempts", _shown(latest("mlbench_run_attempts"))),
    column("from", _shown(_FROM)),
    column("to", _shown(_TO)),
    columns=(
        Column("run", links=(links.RUN_OF_ROW,)),
        Column("state", width=95, mappings=thresholds.RUN_STATE),
        Column("result", unit="short", width=60),
        Column("goal", unit="short", width=50),
        Column("time_to_goal", "time to goal", unit="suffix: s", decimals=1, width=105),
        Column("throughput", "samples/s", unit="none", width=85),
        Column("waited", unit="percentunit", decimals=0, width=75, colours=thresholds.DISTURBED),
        Column("duration", unit="dthms", width=80),
        Column("workers", unit="none", decimals=0, width=70),
        Column("started", unit="dateTimeAsIso", width=160),
        Column("missing", unit="none", decimals=0, width=75, colours=thresholds.ANY_IS_BAD),
        Column("benchmark", width=120),
        Column("backend", width=95),
        Column("attempts", unit="none", decimals=0, width=80),
        Column("run_id", hidden=True),
        Column("from", unit="none", decimals=0, hidden=True),
        Column("to", unit="none", decimals=0, mappings=thresholds.STILL_RUNNING, hidden=True),
    ),
    sort_by="started",
    descending=True,
    height=10,
)

NOW: Final = (
    figure(
        "Active run",
        "The run that trains now. A click leads to it.",
        value(
            or_none(_active(by("run_id, name", "mlbench_run_info")), "name", "No run is active"),
            "{{name}}",
        ),
        show=BigValueTextMode.NAME,
        links=(links.RUN_OF_SERIES,),
        colours=thresholds.thresholds(GREY, {1: BLUE}),
    ),
    dial(
        "Progress",
        "How near the active run's newest value is to its goal, whether higher or lower is better.",
        value(_active(f"({_PROGRESS})"), "run {{run_id}}"),
        unit="percentunit",
        colours=thresholds.GOAL_PROGRESS,
        no_value="No run is active",
    ),
    figure(
        "Elapsed",
        "Time since the active run's start.",
        value(
            _active(f"time() - {by('run_id', 'mlbench_run_started_timestamp_seconds')}"), "elapsed"
        ),
        unit="dthms",
        no_value="No run is active",
    ),
    figure(
        "Samples/s",
        "Training samples that the active run does in a second, over the last minute.",
        value(_active("run:mlbench_worker_samples:rate1m"), "samples/s"),
        unit="short",
        decimals=0,
        no_value="No run is active",
    ),
    figure(
        "Last step",
        "How long ago the rank of the active run that is furthest behind did its last step.",
        value(_active("run:mlbench_worker_progress:age_seconds"), "age"),
        unit="suffix: s ago",
        decimals=0,
        colours=thresholds.PROGRESS_AGE,
        no_value="No run is active",
    ),
    figure(
        "Queue",
        "Runs that wait: for the active run to end, or for workers.",
        value(f"count({_QUEUED}) or vector(0)", "waiting"),
        mappings=thresholds.value_map({"0": ("No run waits", GREY)}),
    ),
)

CURVES: Final = (
    lines(
        "Value of the goal's metric",
        "The metric that each run wants to bring to its goal. Dots are where it was measured.",
        recorded(
            f"{_VALUE} and on (run_id, metric) {ever('mlbench_run_goal')}",
            "run {{run_id}} {{metric}}",
        ),
        unit="short",
        width=12,
        height=7,
        overrides=_DOTS,
        no_value="No run recorded the metric of its goal in this time range",
    ),
    rows(
        "Queue in order",
        "Runs that wait, the next one on top.",
        column(
            "info",
            or_none(
                f"{_info('mlbench_run_info')} and on (run_id) ({_QUEUED})", "run", "No run waits"
            ),
        ),
        column("workers", f"{by('run_id', 'mlbench_run_workers')} and on (run_id) ({_QUEUED})"),
        column(
            "waiting",
            f"time() - {by('run_id', 'mlbench_run_created_timestamp_seconds')}"
            f" and on (run_id) ({_QUEUED})",
        ),
        columns=(
            Column("run"),
            Column("waiting", "waits for", unit="dthms", width=110),
            Column("workers", unit="none", decimals=0, width=80),
            Column("benchmark", width=120),
            Column("backend", hidden=True),
            Column("run_id", hidden=True),
        ),
        sort_by="waits for",
        descending=True,
        width=12,
        height=7,
    ),
)

BOARD: Final = Board(
    uid="mlbench-runs",
    title="MLBench / Runs",
    description="All runs: the active one, the queue, and the results.",
    source="grafana/boards/runs.py",
    time_from="now-24h",
    history=True,
    variables=(
        variables.benchmarks("Of which tasks to list the runs."),
        variables.query(
            "goals",
            "Goal metrics",
            "label_values(mlbench_run_goal, metric)",
            multi=True,
            hidden=True,
        ),
    ),
    # Results first: where nothing goes on they are all there is to see.
    rows=(Row("Results", (ALL,)), Row("Now", NOW), Row("Goal and queue", CURVES)),
)
