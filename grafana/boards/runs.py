"""Page of all runs: results, the active run, and the queue."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import dial, figure, lines
from grafana.line import kept_in_step, newest_kept
from grafana.panels import Overrides
from grafana.queries import (
    by,
    column,
    duration,
    ever,
    latest,
    moment,
    named,
    of_result,
    or_none,
    progress,
    recorded,
    state_or_outcome,
    value,
)
from grafana.table_panels import RANGE_OF_RUN, TableColumn, rows, share
from mlbench.contract import names
from mlbench.contract.palette import BLUE, GREY

_ACTIVE: Final = 'max by (run_id) (mlbench_run_state{state="STARTED"}) == 1'
_QUEUED: Final = 'max by (run_id) (mlbench_run_state{state="INITIALIZED"}) == 1'
_RUNS: Final = 'benchmark=~"$benchmark"'
_CHOSEN: Final = latest(f"mlbench_run_info{{{_RUNS}}}")


def _info(runs: str) -> str:
    return by("run_id, run, benchmark, backend", named(runs))


def _active(expr: str) -> str:
    return f"{expr} and on (run_id) ({_ACTIVE})"


def _queued(expr: str) -> str:
    return f"{expr} and on (run_id) ({_QUEUED})"


def _step_of_active(expr: str) -> str:
    """Return the active run's value, which is NaN until its first step."""
    return f"{by('run_id', _active(expr))} or on () ({_ACTIVE}) * NaN"


def _shown(expr: str, labels: str = "run_id") -> str:
    """Return a value for each run that the variables select."""
    return f"{by(labels, expr)} and on (run_id) {_CHOSEN}"


def _samples(places: str) -> str:
    held = latest(f'mlbench_run_samples{{place=~"{places}"}}')
    return f"sum by (run_id) ({held})"


def _result(figure: str, so_far: str, labels: str = "run_id") -> str:
    """Return a figure of the results of ended runs, and the present value of other runs."""
    ended = by("run_id", latest("mlbench_run_finished_timestamp_seconds"))
    return f"({by(labels, of_result(figure))} or ({so_far} unless on (run_id) {ended}))"


_ANY_RUN: Final = 'run_id!=""'
_OF_TARGETS: Final = 'metric=~"$targets"'
_TARGET = by("run_id, metric", latest('mlbench_run_target{metric=~"$targets"}'))
_NEWEST = (
    by("run_id, metric", newest_kept(_ANY_RUN, _OF_TARGETS)) + f" and on (run_id, metric) {_TARGET}"
)
_PROGRESS = progress(_NEWEST, _TARGET, moment("target_reached"))
_IN_STEP = f"{kept_in_step(_ANY_RUN, _OF_TARGETS)}[$__interval:$__interval] offset -$__interval"
_VALUE = by("run_id, metric", f"last_over_time({_IN_STEP})")
# 1 is the target, whether higher or lower is better.
_SHARE = " or ".join(
    f"clamp_max({left} / on (run_id, metric) {right}, 1)"
    for left, right in (
        (_VALUE, by("run_id, metric", ever('mlbench_run_target{better="higher"}'))),
        (by("run_id, metric", ever('mlbench_run_target{better="lower"}')), _VALUE),
    )
)
_BEST = _result(names.RUN_BEST_VALUE, _NEWEST, "run_id, metric")
_SO_FAR = by("run_id", latest("run:mlbench_run_throughput:mean"))
_THROUGHPUT = _result(names.RUN_SAMPLES_PER_SECOND, _SO_FAR)
_WAITS = by("run_id", "run_rank:mlbench_worker_cpu_contention:ratio1m")
_WAITED = _result(names.RUN_CONTENTION_RATIO, _WAITS)
_NO_STEP: Final = thresholds.not_a_number("No step yet", GREY)
_DOTS: Final[Overrides] = {"/.*/": {"custom.showPoints": "always", "custom.spanNulls": True}}
# Time range of the page of a run: a little longer than the run, for its last scrapes.
_FROM = f"(({moment('started')} or on (run_id) {moment('created')}) - 5) * 1000"
_TO = f"({moment('finished')} + 30) * 1000 or on (run_id) {moment('created')} * 0"

ALL: Final = rows(
    "All runs",
    "Runs in the time range, of the newest hundred; click one for its board. Best: best value of "
    "the target's metric. CPU contention: share of time in which other programs held a rank's "
    "core, of the most affected rank. Missing samples must be 0.",
    column("info", or_none(_info(_CHOSEN), "run", "No run in this time range")),
    column("states", f"({state_or_outcome('')}) and on (run_id) {_CHOSEN}"),
    column("result", _shown(_BEST, "run_id, metric")),
    column("target", _shown(_TARGET, "run_id, metric")),
    column("time_to_target", _shown(of_result(names.RUN_TIME_TO_TARGET))),
    column("throughput", _shown(_THROUGHPUT)),
    column("contention", _shown(_WAITED)),
    column("disturbed", _shown(of_result(names.RUN_DISTURBED))),
    column("duration", _shown(duration())),
    column("workers", _shown(latest("mlbench_run_workers"))),
    column("started", _shown(f"{moment('started')} * 1000")),
    column("missing", _shown(f"{_samples('recorded')} - {_samples('in_prometheus|in_database')}")),
    column("attempts", _shown(latest("mlbench_run_attempts"))),
    column("from", _shown(_FROM)),
    column("to", _shown(_TO)),
    columns=(
        TableColumn("run", links=(links.RUN_OF_ROW,)),
        TableColumn("state", width=95, mappings=thresholds.RUN_STATE),
        TableColumn("result", unit="short", width=60),
        TableColumn("target", unit="short", width=50),
        TableColumn("time_to_target", "time to target", unit="suffix: s", width=105),
        TableColumn("throughput", "samples/s", unit="locale", decimals=0, width=85),
        share("contention", "CPU contention", width=90, colours=thresholds.DISTURBED),
        TableColumn("disturbed", unit="none", width=80, mappings=thresholds.IS_DISTURBED),
        TableColumn("benchmark", width=110),
        TableColumn("started", unit="time:MM-DD HH:mm", width=100),
        TableColumn("duration", unit="dthms", width=80),
        TableColumn("workers", unit="none", decimals=0, width=70),
        TableColumn("metric", width=150),
        TableColumn("missing", unit="none", decimals=0, width=75, colours=thresholds.ANY_IS_BAD),
        TableColumn("backend", width=95),
        TableColumn("attempts", unit="none", decimals=0, width=80),
        *RANGE_OF_RUN,
    ),
    sort_by="started",
    descending=True,
    height=10,
)

_NAMES = by("run_id, name", "mlbench_run_info")
_AGE = "run:mlbench_worker_progress:age_seconds"
_HAS_STEPS = "sum by (run_id) (mlbench_worker_step_seconds_count) > 0"
_now = partial(figure, no_value="No run is active")
NOW: Final = (
    figure(
        "Active run",
        "The run that is training. Click it for its board.",
        value(or_none(_active(_NAMES), "name", "No run is active"), "{{name}}"),
        show=BigValueTextMode.NAME,
        links=(links.RUN_OF_SERIES,),
        colours=thresholds.thresholds(GREY, {1: BLUE}),
    ),
    dial(
        "Progress",
        "Newest value of the active run as a share of its target. 100 %: target reached.",
        value(_step_of_active(f"({_PROGRESS})"), "run {{run_id}}"),
        unit="percentunit",
        colours=thresholds.TARGET_PROGRESS,
        mappings=(_NO_STEP,),
        no_value="No run is active",
    ),
    _now(
        "Elapsed",
        "Time since the active run's start.",
        value(_active(f"time() - {by('run_id', names.RUN_STARTED)}"), "run {{run_id}}"),
        unit="dthms",
    ),
    _now(
        "Samples/s",
        "Training throughput of the active run over the last minute, in samples per second.",
        value(_step_of_active("run:mlbench_worker_samples:rate1m"), "run {{run_id}}"),
        unit="locale",
        decimals=0,
        mappings=(_NO_STEP,),
    ),
    _now(
        "Last step",
        "Age of the last step of the active run's rank that is furthest behind. "
        "MLBenchRunStalled fires after 30 usual steps, and at least 30 s.",
        value(_step_of_active(f"{_AGE} and on (run_id) {_HAS_STEPS}"), "run {{run_id}}"),
        unit="suffix: s ago",
        decimals=0,
        colours=thresholds.PROGRESS_AGE,
        mappings=(_NO_STEP,),
    ),
    figure(
        "Queue",
        "Number of runs that wait for the active run to end, or for workers.",
        value(f"count({_QUEUED}) or vector(0)", "waiting"),
        mappings=thresholds.value_map({"0": ("No run waits", GREY)}),
    ),
)

CURVES: Final = (
    lines(
        "Progress to the target",
        "The target's metric of each run as a share of its target; inverted if lower is better. "
        "100 %: target reached. Dots are measurements.",
        recorded(_SHARE, "run {{run_id}} {{metric}}"),
        unit="percentunit",
        width=12,
        height=7,
        overrides=_DOTS,
        no_value="No run recorded its target's metric in this time range",
    ),
    rows(
        "Queue order",
        "Waiting runs, the next one first.",
        column("info", or_none(_queued(_info("mlbench_run_info")), "run", "No run waits")),
        column("workers", _queued(by("run_id", "mlbench_run_workers"))),
        column("waiting", _queued(f"time() - {by('run_id', names.RUN_CREATED)}")),
        columns=(
            TableColumn("run"),
            TableColumn("waiting", "waiting for", unit="dthms", width=110),
            TableColumn("workers", unit="none", decimals=0, width=80),
            TableColumn("benchmark", width=120),
            TableColumn("backend", hidden=True),
            TableColumn("run_id", hidden=True),
        ),
        sort_by="waiting for",
        descending=True,
        width=12,
        height=7,
    ),
)

BOARD: Final = Board(
    uid="mlbench-runs",
    title="MLBench / Runs",
    description="All runs: the active run, the queue and the results.",
    source="grafana/boards/runs.py",
    time_from="now-24h",
    history=True,
    variables=(
        variables.benchmarks("Benchmarks of the listed runs."),
        variables.query(
            "targets",
            "Target metrics",
            "label_values(mlbench_run_target, metric)",
            multi=True,
            hidden=True,
        ),
    ),
    # Results first: where nothing goes on they are all there is to see.
    rows=(Row("Results", (ALL,)), Row("Active run", NOW), Row("Progress and queue", CURVES)),
)
