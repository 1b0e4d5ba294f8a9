"""The page that compares runs: how they learn, and what more workers bring."""

from typing import Final

from grafana_foundation_sdk.models.common import StackingMode, VisibilityMode
from grafana_foundation_sdk.models.dashboard import VariableOption

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.figures import bars
from grafana.graphs import against, stacked_bars
from grafana.panels import PHASE_COLOURS, dashed
from grafana.queries import Query, by, column, latest, value
from grafana.tables import Column, rows
from grafana.transformations import averaged_over, matrix, since_start
from mlbench import names, palette

_RUNS: Final = 'run_id=~"$run_id"'
# All ranks record the same value for the whole validation set; posted values have no rank.
_MEASURED: Final = f'mlbench_run_metric{{{_RUNS},metric="$metric",rank=~"0|"}}'
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

# Each run with a label "run" such as "3 resnet-a (4 workers)".
_INFO: Final = by(
    "run_id, run, benchmark",
    f"label_replace(label_join({latest(f'mlbench_run_info{{{_RUNS}}}')}, "
    '"run", ";", "run_id", "name", "workers"), '
    '"run", "$1 $2 ($3 workers)", "run", "(.*);(.*);(.*)")',
)


def _of_runs(selector: str) -> str:
    """Take the newest value of each run, with the labels of ``_INFO``."""
    return f"{by('run_id', latest(selector))} * on (run_id) group_left (run, benchmark) {_INFO}"


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


_IDEAL = f"({_WORKERS}) / on (benchmark) group_left () {_FEWEST}"
_SPEEDUP = f"({_THROUGHPUT}) / on (benchmark) group_left () {_baseline_of(_THROUGHPUT)}"
_EFFICIENCY = f"({_SPEEDUP}) / ({_IDEAL})"
_SOONER = f"{_baseline_of(_TIME_TO_GOAL)} / on (benchmark) group_right () ({_TIME_TO_GOAL})"

LEARNING: Final = (
    against(
        "Accuracy since the start",
        "The chosen metric of each run over the time since its start, whenever that was. The run "
        "whose curve is further to the left learns faster.",
        Query(f"{_MEASURED}[$__range]", ref="value", instant=True, table=True),
        column("start", f"({_STARTED}) * 1000"),
        x="time since start",
        unit="short",
        x_unit="ms",
        width=16,
        height=11,
        points=VisibilityMode.ALWAYS,
        transformations=since_start("value", "start", "run", "time since start"),
        no_value="Choose runs that record this metric",
    ),
    bars(
        "Time to goal",
        "Training time, evaluation left out, until each run reached its goal: the result that "
        "MLBench compares. Runs that have not reached it are missing.",
        value(f"sort({_TIME_TO_GOAL})", "{{run}}"),
        unit="s",
        height=11,
        decimals=1,
        no_value="None of the runs has reached its goal",
    ),
)

SCALING: Final = (
    against(
        "Speed-up by number of workers",
        "Throughput against that of the chosen runs of the same benchmark with the fewest workers. "
        "Dashed: as many times as fast as there are more workers.",
        column("speed-up", f"{_curve(_SPEEDUP, '$1')} or {_curve(_IDEAL, 'ideal $1')}"),
        column("workers", _WORKERS),
        x="workers",
        x_unit="none",
        points=VisibilityMode.ALWAYS,
        least=0,
        transformations=averaged_over("workers", "speed-up", "curve"),
        overrides={"/^ideal/": dashed(palette.GREY)},
        no_value="Choose runs with different numbers of workers",
    ),
    against(
        "Scaling efficiency by number of workers",
        "Speed-up divided by how many times as many workers it took. 100 % wastes nothing; what "
        "is missing goes into communication and waiting.",
        column("efficiency", _curve(_EFFICIENCY, "$1")),
        column("workers", _WORKERS),
        x="workers",
        unit="percentunit",
        x_unit="none",
        points=VisibilityMode.ALWAYS,
        least=0,
        transformations=averaged_over("workers", "efficiency", "curve"),
        no_value="Choose runs with different numbers of workers",
    ),
    bars(
        "Throughput",
        "Training samples in a second of training, evaluation left out, over the whole run.",
        value(f"sort_desc({_THROUGHPUT})", "{{run}}"),
        unit="short",
        no_value="None of the runs counts its samples",
    ),
)

_PHASE_SECONDS = column(
    "seconds",
    "avg by (run_id, phase) (label_replace("
    + latest(f'mlbench_run_metric{{{_RUNS},metric=~"{_PHASES}"}}')
    + f', "phase", "$1", "metric", "(.*)_seconds")) * on (run_id) group_left (run) {_INFO}',
)

PHASES: Final = (
    stacked_bars(
        "Seconds by phase",
        "How long a rank of each run spent in each phase, on average. The whole bar is the time "
        "that training and evaluation took.",
        _PHASE_SECONDS,
        unit="s",
        x="run",
        transformations=matrix("run", "phase", "Value", x="run"),
        overrides=PHASE_COLOURS,
        no_value="None of the runs records phases",
    ),
    stacked_bars(
        "Share by phase",
        "The same as a share of each run's time. What grows when workers are added?",
        _PHASE_SECONDS,
        unit="s",
        x="run",
        transformations=matrix("run", "phase", "Value", x="run"),
        stacking=StackingMode.PERCENT,
        overrides=PHASE_COLOURS,
        no_value="None of the runs records phases",
    ),
)

TABLE: Final = rows(
    "Runs compared",
    "The chosen runs in figures. Speed-up and efficiency are against the chosen runs of the same "
    "benchmark with the fewest workers.",
    column("workers", _WORKERS),
    column("states", f"{by('run_id, state', latest(f'mlbench_run_state{{{_RUNS}}}'))} == 1"),
    column("result", by("run_id", latest(_MEASURED))),
    column("time_to_goal", by("run_id", _TIME_TO_GOAL)),
    column("since_start", f"{by('run_id', _REACHED)} - on (run_id) {by('run_id', _STARTED)}"),
    column("throughput", by("run_id", _THROUGHPUT)),
    column("speedup", by("run_id", _SPEEDUP)),
    column("efficiency", by("run_id", _EFFICIENCY)),
    column("sooner", by("run_id", _SOONER)),
    column("from", f"({by('run_id', _STARTED)} - 5) * 1000"),
    column("to", f"({_FINISHED} + 30) * 1000 or on (run_id) {by('run_id', _STARTED)} * 0"),
    columns=(
        Column("run", width=300, links=(links.RUN_OF_ROW,)),
        Column("benchmark"),
        Column("state", mappings=thresholds.RUN_STATE),
        Column("workers", unit="none", decimals=0),
        Column("result", "$metric", unit="short"),
        Column("time_to_goal", "time to goal", unit="s", decimals=1),
        Column("since_start", "goal since start", unit="s", decimals=1),
        Column("throughput", "samples/s", unit="short"),
        Column("speedup", "speed-up", unit="none", decimals=2),
        Column("efficiency", unit="percentunit", decimals=0, colours=thresholds.EFFICIENCY),
        Column("sooner", "times as soon at goal", unit="none", decimals=2),
        Column("run_id", hidden=True),
        Column("from", unit="none", decimals=0, hidden=True),
        Column("to", unit="none", decimals=0, mappings=thresholds.STILL_RUNNING, hidden=True),
    ),
    sort_by="workers",
    no_value="Choose runs",
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
            f'label_values(mlbench_run_metric{{{_RUNS},metric!~"{_NO_RESULT}"}}, metric)',
            current=VariableOption(text=names.VAL_ACCURACY, value=names.VAL_ACCURACY),
            description="What is drawn over the time since the start.",
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
