"""Page of all runs: results, the active run, and the queue."""

from typing import Final

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import lines
from grafana.line import kept_in_step, newest_kept
from grafana.panels import RUN_COLOURS, Overrides
from grafana.queries import (
    SECONDS,
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
    run_range,
    state_or_outcome,
    time_to_target,
)
from grafana.table_panels import RANGE_OF_RUN, PanelColumn, rows, share
from grafana.transformations import metrics_titled
from mlbench.contract import names

_ACTIVE: Final = 'max by (run_id) (mlbench_run_state{state="STARTED"}) == 1'
_LIVE: Final = 'max by (run_id, state) (mlbench_run_state{state=~"STARTED|INITIALIZED"}) == 1'
_RUNS: Final = 'benchmark=~"$benchmark"'
_CHOSEN: Final = latest(f"mlbench_run_info{{{_RUNS}}}")


def _info(runs: str) -> str:
    return by("run_id, run, benchmark, user", named(runs))


def _active(expr: str) -> str:
    return f"{expr} and on (run_id) ({_ACTIVE})"


def _live(expr: str) -> str:
    return f"{expr} and on (run_id) ({_LIVE})"


def _selected(expr: str, labels: str = "run_id") -> str:
    """Return a value for each run that the variables select."""
    return f"{by(labels, expr)} and on (run_id) {_CHOSEN}"


def _samples(places: str) -> str:
    samples = latest(f'mlbench_run_samples{{place=~"{places}"}}')
    return f"sum by (run_id) ({samples})"


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
_DOTS: Final[Overrides] = {
    **RUN_COLOURS,
    "/.*/": {"custom.showPoints": "always", "custom.spanNulls": True},
}
_FROM, _TO = run_range()

ALL: Final = rows(
    "All runs",
    "Runs in the time range, of the newest hundred; click one for its board. Best: best value of "
    "the target's metric. Contention: share of time in which other programs held a core of the "
    "most affected rank. Missing samples must be 0.",
    column("info", or_none(_info(_CHOSEN), "run", "No run in this time range")),
    column("states", f"({state_or_outcome('')}) and on (run_id) {_CHOSEN}"),
    column("result", _selected(_BEST)),
    column("target", _selected(_TARGET)),
    column("time_to_target", _selected(time_to_target())),
    column("throughput", _selected(_THROUGHPUT)),
    column("contention", _selected(_WAITED)),
    column("duration", _selected(duration())),
    column("workers", _selected(latest("mlbench_run_workers"))),
    column("started", _selected(f"{moment('started')} * 1000")),
    column(
        "missing", _selected(f"{_samples('recorded')} - {_samples('in_prometheus|record_only')}")
    ),
    column("from", _selected(_FROM)),
    column("to", _selected(_TO)),
    columns=(
        PanelColumn("run", width=205, links=(links.RUN_OF_ROW,)),
        PanelColumn("state", "outcome", width=145, mappings=thresholds.RUN_STATE),
        PanelColumn("time_to_target", "time to target", unit=SECONDS, width=115),
        PanelColumn("result", "best", unit="short", width=65),
        PanelColumn("target", unit="short", width=75),
        PanelColumn("throughput", "samples/s", unit="locale", decimals=0, width=95),
        share("contention", "contention", width=95, colours=thresholds.DISTURBED),
        PanelColumn("started", unit="time:MM-DD HH:mm", width=110),
        PanelColumn("duration", unit="dthms", width=85),
        PanelColumn("workers", unit="none", decimals=0, width=80),
        PanelColumn("missing", unit="locale", decimals=0, width=75, colours=thresholds.ANY_IS_BAD),
        PanelColumn("benchmark"),
        PanelColumn("user", width=95),
        *RANGE_OF_RUN,
    ),
    sort_by="started",
    descending=True,
    height=12,
)

_AGE = "run:mlbench_worker_progress:age_seconds"
_HAS_STEPS = "sum by (run_id) (mlbench_worker_step_seconds_count) > 0"
_STARTED = f"{by('run_id', names.RUN_STARTED)} and on (run_id) ({_ACTIVE})"
_SINCE = f"({_STARTED} or on (run_id) {by('run_id', names.RUN_CREATED)})"
LIVE: Final = rows(
    "Active run and queue",
    "Runs that are active or wait, in their order. Progress: newest value of the target's metric "
    "as a share of the target. Last step: age, of the rank furthest behind; MLBenchRunStalled "
    "fires after 30 usual steps, and at least 30 s.",
    column("info", or_none(_live(_info("mlbench_run_info")), "run", "No active run")),
    column("states", _LIVE),
    column("progress", _active(f"({_PROGRESS})")),
    column("elapsed", _live(f"time() - {_SINCE}")),
    column("throughput", _active(by("run_id", "run:mlbench_worker_samples:rate1m"))),
    column("age", _active(f"({by('run_id', _AGE)} and on (run_id) {_HAS_STEPS})")),
    column("workers", _live(by("run_id", "mlbench_run_workers"))),
    column("since", _live(f"{_SINCE} * 1000")),
    column("from", _live(f"({_FROM})")),
    column("to", _live(f"({_TO})")),
    columns=(
        PanelColumn("run", width=215, links=(links.RUN_OF_ROW,)),
        PanelColumn("state", width=115, mappings=thresholds.RUN_STATE),
        PanelColumn("progress", unit="percentunit", decimals=0, width=190, bar=True, maximum=1),
        PanelColumn("elapsed", "for", unit="dthms", width=90),
        PanelColumn("throughput", "samples/s", unit="locale", decimals=0, width=95),
        PanelColumn(
            "age", "last step", "suffix: s ago", 0, width=95, colours=thresholds.PROGRESS_AGE
        ),
        PanelColumn("workers", unit="none", decimals=0, width=85),
        PanelColumn("since", unit="time:MM-DD HH:mm", width=115),
        PanelColumn("benchmark"),
        PanelColumn("user", width=95),
        *RANGE_OF_RUN,
    ),
    sort_by="state",
    descending=True,
    then_by="since",
    height=5,
)

CURVES: Final = (
    lines(
        "Progress to the target",
        "The target's metric of each run as a share of its target; inverted if lower is better. "
        "100 %: target reached. Dots are measurements.",
        recorded(_SHARE, "run {{run_id}} {{metric}}"),
        transformations=metrics_titled(),
        unit="percentunit",
        width=24,
        overrides=_DOTS,
        no_value="No run recorded its target's metric in this time range",
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
    rows=(
        Row("Now", (LIVE,)),
        Row("Results", (ALL,)),
        Row("Progress over time", CURVES),
    ),
)
