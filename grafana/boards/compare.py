"""The page that compares runs: how they learn, and what more workers bring."""

from typing import Final

from grafana_foundation_sdk.models.common import VisibilityMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.figures import bars
from grafana.graphs import against, stacked_bars
from grafana.panels import PHASE_COLOURS, dashed
from grafana.queries import Query, by, called, column, duration, latest, named, value
from grafana.tables import Column, rows
from grafana.transformations import averaged_over, in_parts, since_start
from mlbench import names, palette

_RUNS: Final = 'run_id=~"$run_id"'
_PHASES: Final = "|".join(names.phase_metric(phase) for phase in names.PHASES)

# Metrics of each step, and totals: they are no results, and have far too many values.
_NO_RESULT: Final = "|".join(
    (
        names.TRAIN_LOSS,
        names.LEARNING_RATE,
        names.EPOCH,
        names.STEP,
        names.SAMPLES,
        names.TRAIN_SECONDS,
        _PHASES,
    )
)
_IS_RESULT: Final = f'metric!~"{_NO_RESULT}"'

# All ranks record the same value for the whole validation set; posted values have no rank. An
# address may ask for a metric of each step, which would keep a browser busy for minutes.
_MEASURED: Final = f'mlbench_run_metric{{{_RUNS},metric="$metric",{_IS_RESULT},rank=~"0|"}}'

# Each run with the labels "run" (number, name, workers) and "workers" (benchmark, workers).
_BY: Final = " \N{MULTIPLICATION SIGN}"
_NAMED: Final = named(latest(f"mlbench_run_info{{{_RUNS}}}"))
_SIZED: Final = f'label_join({_NAMED}, "run", "{_BY}", "run", "workers")'
_INFO: Final = by(
    "run_id, run, benchmark, workers",
    f'label_join({_SIZED}, "workers", "{_BY}", "benchmark", "workers")',
)


def _of_runs(selector: str) -> str:
    """Take the newest value of each run, with the labels of ``_INFO``."""
    return _labelled(by("run_id", latest(selector)))


def _labelled(expr: str) -> str:
    return f"{expr} * on (run_id) group_left (run, benchmark, workers) {_INFO}"


def _grouped(expr: str, labels: str = "bar") -> str:
    """Average over the runs of a bar: one run, or those with as many workers."""
    return f'avg by ({labels}) (label_join({expr}, "bar", "", "$group"))'


_WORKERS = _of_runs(f"mlbench_run_workers{{{_RUNS}}}")
_THROUGHPUT = _of_runs(f"run:mlbench_run_throughput:mean{{{_RUNS}}}")
_TIME_TO_GOAL = _of_runs(f"mlbench_run_time_to_goal_seconds{{{_RUNS}}}")
_STARTED = _of_runs(f"mlbench_run_started_timestamp_seconds{{{_RUNS}}}")
_REACHED = _of_runs(f"mlbench_run_goal_reached_timestamp_seconds{{{_RUNS}}}")
_FINISHED = by("run_id", latest(f"mlbench_run_finished_timestamp_seconds{{{_RUNS}}}"))

# The baseline: for each benchmark, the chosen runs with the fewest workers.
_FEWEST = f"min by (benchmark) ({_WORKERS})"
_BASELINE = f"({_WORKERS}) == on (benchmark) group_left () {_FEWEST}"


def _baseline_of(expr: str) -> str:
    return f"avg by (benchmark) ({expr} and on (run_id) ({_BASELINE}))"


def _curve(expr: str, name: str) -> str:
    """Give values a label "curve", in which ``$1`` stands for the benchmark."""
    return f'label_replace({expr}, "curve", "{name}", "benchmark", "(.*)")'


# A dashed line for each benchmark, from the start to the end of the longest run.
_GOAL = _of_runs(f'mlbench_run_goal{{{_RUNS},metric="$metric"}}')
_GOALS = f'label_replace(max by (benchmark) ({_GOAL}), "run", "goal $1", "benchmark", "(.*)")'
_DURATION = duration(f"{{{_RUNS}}}")
_LONGEST = f"scalar(max({_DURATION} and on (run_id) {latest(_MEASURED)}))"


def _at_both_ends(left: str, right: str) -> str:
    """Give two points of a line, told apart by the label that is a run's id elsewhere."""
    ends = {"left": left, "right": right}
    return " or ".join(called("run_id", end, expr) for end, expr in ends.items())


_GOAL_STARTS = _at_both_ends(f"{_GOALS} * 0 + time()", f"{_GOALS} * 0 + time() - {_LONGEST}")

_IDEAL = f"({_WORKERS}) / on (benchmark) group_left () {_FEWEST}"
_SPEEDUP = f"({_THROUGHPUT}) / on (benchmark) group_left () {_baseline_of(_THROUGHPUT)}"
_EFFICIENCY = f"({_SPEEDUP}) / ({_IDEAL})"
_SOONER = f"{_baseline_of(_TIME_TO_GOAL)} / on (benchmark) group_right () ({_TIME_TO_GOAL})"

_GOAL_METRICS = f"count by (metric) ({latest(f'mlbench_run_goal{{{_RUNS}}}')})"
_RESULTS = f"mlbench_run_metric{{{_RUNS},{_IS_RESULT}}}"
_METRICS = f"{_GOAL_METRICS} or count by (metric) ({latest(_RESULTS)}) * 0"

LEARNING: Final = (
    against(
        "Metric since the start",
        "The chosen metric of each run over the time since its start, whenever that was. The run "
        "whose curve is further to the left learns faster. Dashed: the goal.",
        Query(f"{_MEASURED}[$__range]", ref="value", instant=True, table=True),
        # Queries are merged by the label of a run, so each must have some answer.
        column(
            "goal",
            f"{_at_both_ends(_GOALS, _GOALS)} or on () {called('run_id', 'none', 'vector(NaN)')}",
        ),
        column("start", f"({_STARTED} or {_GOAL_STARTS}) * 1000"),
        x="time since start",
        unit="short",
        x_unit="dthms",
        width=16,
        height=11,
        points=VisibilityMode.ALWAYS,
        transformations=since_start(("value", "goal"), "start", "run", "time since start"),
        overrides={"/^goal/": dashed(palette.GOAL)},
        no_value="Choose runs that record this metric",
    ),
    bars(
        "Time to goal",
        "Training time, evaluation left out, until each run reached its goal: the result that "
        "MLBench compares. Runs that have not reached it are missing.",
        value(f"sort({_grouped(_TIME_TO_GOAL)})", "{{bar}}"),
        unit="suffix: s",
        height=11,
        decimals=1,
        no_value="None of the runs has reached its goal",
    ),
)

SCALING: Final = (
    against(
        "Speed-up by workers",
        "Throughput against that of the chosen runs of the same benchmark with the fewest workers. "
        "Dashed: as many times as fast as there are more workers.",
        column("speed-up", f"{_curve(_SPEEDUP, '$1')} or {_curve(_IDEAL, 'ideal $1')}"),
        column("workers", _WORKERS),
        x="workers",
        x_unit="none",
        doubling=True,
        points=VisibilityMode.ALWAYS,
        least=0,
        transformations=averaged_over("workers", "speed-up", "curve"),
        overrides={"/^ideal/": dashed(palette.GREY)},
        no_value="Choose runs with different numbers of workers",
    ),
    against(
        "Efficiency by workers",
        "Speed-up divided by how many times as many workers it took. 100 % wastes nothing; what "
        "is missing goes into communication and waiting.",
        column("efficiency", _curve(_EFFICIENCY, "$1")),
        column("workers", _WORKERS),
        x="workers",
        unit="percentunit",
        x_unit="none",
        doubling=True,
        points=VisibilityMode.ALWAYS,
        least=0,
        transformations=averaged_over("workers", "efficiency", "curve"),
        no_value="Choose runs with different numbers of workers",
    ),
    bars(
        "Samples/s",
        "Training samples in a second of training, evaluation left out, over the whole run.",
        value(f"sort_desc({_grouped(_THROUGHPUT)})", "{{bar}}"),
        no_value="None of the runs counts its samples",
    ),
)

_RECORDED = latest(f'mlbench_run_metric{{{_RUNS},metric=~"{_PHASES}"}}')
_PHASE_SECONDS = _grouped(
    _labelled(
        f'avg by (run_id, phase) (label_replace({_RECORDED}, "phase", "$1", "metric", '
        '"(.*)_seconds"))'
    ),
    "bar, phase",
)
_PHASE_SHARES = f"{_PHASE_SECONDS} / on (bar) group_left () sum by (bar) ({_PHASE_SECONDS})"
_BAR_WORKERS = column("workers", _grouped(_WORKERS))

PHASES: Final = (
    stacked_bars(
        "Time by phase",
        "How long a rank of each run spent in each phase, on average. The whole bar is the time "
        "that training and evaluation took.",
        column("phases", _PHASE_SECONDS),
        _BAR_WORKERS,
        unit="dthms",
        x="bar",
        transformations=in_parts("bar", "phase", "phases", "workers", names.PHASES),
        overrides=PHASE_COLOURS,
        no_value="None of the runs records phases",
    ),
    stacked_bars(
        "Share by phase",
        "The same as a share of each run's time. What grows when workers are added?",
        column("phases", _PHASE_SHARES),
        _BAR_WORKERS,
        unit="percentunit",
        most=1,
        x="bar",
        transformations=in_parts("bar", "phase", "phases", "workers", names.PHASES),
        overrides=PHASE_COLOURS,
        no_value="None of the runs records phases",
    ),
)

TABLE: Final = rows(
    "Runs compared",
    "The chosen runs in figures; the result is in the chosen metric. Speed-up, efficiency and "
    "sooner (how many times as soon it was at its goal) are against the chosen runs of the same "
    "benchmark with the fewest workers.",
    column("workers", by("run_id, run, benchmark", _WORKERS)),
    column("states", f"{by('run_id, state', latest(f'mlbench_run_state{{{_RUNS}}}'))} == 1"),
    column("speedup", by("run_id", _SPEEDUP)),
    column("efficiency", by("run_id", _EFFICIENCY)),
    column("time_to_goal", by("run_id", _TIME_TO_GOAL)),
    column("sooner", by("run_id", _SOONER)),
    column("result", by("run_id", latest(_MEASURED))),
    column("throughput", by("run_id", _THROUGHPUT)),
    column("since_start", f"{by('run_id', _REACHED)} - on (run_id) {by('run_id', _STARTED)}"),
    column("from", f"({by('run_id', _STARTED)} - 5) * 1000"),
    column("to", f"({_FINISHED} + 30) * 1000 or on (run_id) {by('run_id', _STARTED)} * 0"),
    columns=(
        Column("run", width=220, links=(links.RUN_OF_ROW,)),
        Column("workers", unit="none", decimals=0, width=95),
        Column("speedup", "speed-up", unit="none", decimals=2, width=80),
        Column(
            "efficiency", unit="percentunit", decimals=0, colours=thresholds.EFFICIENCY, width=85
        ),
        Column("time_to_goal", "time to goal", unit="suffix: s", decimals=1, width=105),
        Column("sooner", unit="none", decimals=2, width=75),
        Column("result", unit="short", width=70),
        Column("throughput", "samples/s", unit="none", width=85),
        Column("state", width=95, mappings=thresholds.RUN_STATE),
        Column("since_start", "goal since start", unit="dthms", width=130),
        Column("benchmark"),
        Column("run_id", hidden=True),
        Column("from", unit="none", decimals=0, hidden=True),
        Column("to", unit="none", decimals=0, mappings=thresholds.STILL_RUNNING, hidden=True),
    ),
    sort_by="workers",
)

BOARD: Final = Board(
    uid="mlbench-compare",
    title="MLBench / Compare",
    description="Runs side by side: who reaches the goal first, and what more workers bring.",
    source="grafana/boards/compare.py",
    time_from="now-24h",
    history=True,
    variables=(
        variables.benchmarks("Of which tasks to compare the runs."),
        variables.runs('benchmark=~"$benchmark"'),
        variables.query(
            "metric",
            "Metric",
            f"query_result(sort_desc({_METRICS}))",
            regex='/metric="(?<value>[^"]+)"/',
            sort=VariableSort.DISABLED,
            description="What is drawn over the time since the start; first that of the goal.",
        ),
        variables.choice(
            "group", "Bars", ("run", "workers"), "For each run, or the mean of as many workers."
        ),
    ),
    runs=_RUNS,
    rows=(
        Row("Who is first", LEARNING),
        Row("What more workers bring", SCALING),
        Row("Where the time goes", PHASES),
        Row("In figures", (TABLE,)),
    ),
)
