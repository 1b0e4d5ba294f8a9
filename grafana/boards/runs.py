"""The page of all runs: the active one, the queue, and the results."""

from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.figures import dial, figure
from grafana.graphs import lines
from grafana.queries import (
    by,
    column,
    duration,
    latest,
    moment,
    progress,
    recorded,
    value,
    while_running,
)
from grafana.tables import Column, rows
from mlbench import names

_ACTIVE: Final = 'max by (run_id) (mlbench_run_state{state="STARTED"}) == 1'
_QUEUED: Final = 'max by (run_id) (mlbench_run_state{state="INITIALIZED"}) == 1'
_RUNS: Final = 'benchmark=~"$benchmark"'
_CHOSEN: Final = latest(f"mlbench_run_info{{{_RUNS}}}")
_INFO: Final = "run_id, name, benchmark, backend"


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
_VALUE = by("run_id, metric", 'mlbench_run_metric{metric=~"$goals"}')
# The time range of a run's own page: a little longer than the run, for its last scrapes.
_FROM = f"(({moment('started')} or on (run_id) {moment('created')}) - 5) * 1000"
_TO = f"({moment('finished')} + 30) * 1000 or on (run_id) {moment('created')} * 0"

ACTIVE: Final = (
    figure(
        "Active run",
        "The run that trains now. A click leads to it.",
        value(_active(by("run_id, name", "mlbench_run_info")), "{{name}}"),
        width=5,
        show=BigValueTextMode.NAME,
        links=(links.RUN_OF_SERIES,),
        no_value="No run is active",
    ),
    dial(
        "Progress to goal",
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
        unit="s",
        decimals=0,
        no_value="No run is active",
    ),
    figure(
        "Epoch",
        "The epoch that the active run has come to.",
        value(_active(by("run_id", f'mlbench_run_metric{{metric="{names.EPOCH}"}}')), "epoch"),
        decimals=0,
        no_value="No run is active",
    ),
    figure(
        "Throughput",
        "Training samples that the active run does in a second, over the last minute.",
        value(_active("run:mlbench_worker_samples:rate1m"), "samples/s"),
        unit="short",
        decimals=0,
        no_value="No run is active",
    ),
    figure(
        "Last progress",
        "How long ago the rank of the active run that is furthest behind did its last step.",
        value(_active("run:mlbench_worker_progress:age_seconds"), "age"),
        unit="s",
        decimals=0,
        colours=thresholds.PROGRESS_AGE,
        no_value="No run is active",
    ),
    figure(
        "Queue",
        "Runs that wait: for the active run to end, or for workers.",
        value(f"count({_QUEUED}) or vector(0)", "waiting"),
        width=3,
    ),
)

CURVES: Final = (
    lines(
        "Value of the goal's metric",
        "The metric that each run wants to bring to its goal. Dots are where it was measured.",
        recorded(
            while_running(f"{_VALUE} and on (run_id, metric) mlbench_run_goal", ""),
            "run {{run_id}} {{metric}}",
        ),
        unit="short",
        width=12,
        height=7,
        no_value="No run records the metric of a goal",
    ),
    rows(
        "Queue in order",
        "Runs that wait, the next one on top.",
        column("info", f"{by(_INFO, 'mlbench_run_info')} and on (run_id) ({_QUEUED})"),
        column(
            "waiting",
            f"time() - {by('run_id', 'mlbench_run_created_timestamp_seconds')}"
            f" and on (run_id) ({_QUEUED})",
        ),
        column("workers", f"{by('run_id', 'mlbench_run_workers')} and on (run_id) ({_QUEUED})"),
        columns=(
            Column("run_id", "run", width=70),
            Column("name"),
            Column("benchmark"),
            Column("workers", unit="none", decimals=0),
            Column("waiting", "waits for", unit="s", decimals=0),
            Column("backend", hidden=True),
        ),
        sort_by="waits for",
        descending=True,
        width=12,
        height=7,
        no_value="No run waits",
    ),
)

ALL: Final = rows(
    "All runs",
    "Every run that the time range has seen, of the newest hundred. A click on a run leads to its "
    "detail, over the run's own time. Missing is what was recorded and is neither in Prometheus "
    "nor kept: 0, or something is wrong.",
    column("info", by(_INFO, _CHOSEN)),
    column(
        "states",
        f"{by('run_id, state', latest('mlbench_run_state'))} == 1 and on (run_id) {_CHOSEN}",
    ),
    column("workers", _shown(latest("mlbench_run_workers"))),
    column("started", _shown(f"{moment('started')} * 1000")),
    column("duration", _shown(duration())),
    column("goal", _shown(_GOAL)),
    column("result", _shown(_RESULT)),
    column("time_to_goal", _shown(latest("mlbench_run_time_to_goal_seconds"))),
    column("throughput", _shown(latest("run:mlbench_run_throughput:mean"))),
    column("attempts", _shown(latest("mlbench_run_attempts"))),
    column("recorded", _shown(_samples("recorded"))),
    column("missing", _shown(f"{_samples('recorded')} - {_samples('in_prometheus|kept')}")),
    column("from", _shown(_FROM)),
    column("to", _shown(_TO)),
    columns=(
        Column("run_id", "run", width=60, links=(links.RUN_OF_ROW,)),
        Column("name", width=230, links=(links.RUN_OF_ROW,)),
        Column("state", width=110, mappings=thresholds.RUN_STATE),
        Column("benchmark"),
        Column("workers", unit="none", decimals=0, width=80),
        Column("backend", width=80),
        Column("started", unit="dateTimeAsIso", width=165),
        Column("duration", unit="s", decimals=0),
        Column("goal", unit="short"),
        Column("result", unit="short"),
        Column("time_to_goal", "time to goal", unit="s", decimals=1),
        Column("throughput", "samples/s", unit="short"),
        Column("attempts", unit="none", decimals=0),
        Column("recorded", "values", unit="none", decimals=0),
        Column("missing", unit="none", decimals=0, colours=thresholds.ANY_IS_BAD),
        Column("from", unit="none", decimals=0, hidden=True),
        Column("to", unit="none", decimals=0, mappings=thresholds.STILL_RUNNING, hidden=True),
    ),
    sort_by="started",
    descending=True,
    height=14,
    no_value="The time range has seen no run",
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
    rows=(Row("Now", ACTIVE), Row("Goal and queue", CURVES), Row("Results", (ALL,))),
)
