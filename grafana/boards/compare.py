"""Page that compares runs: their learning curves, and the speedup of more workers."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import VisibilityMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import against, stacked_bars
from grafana.line import newest_kept, samples_kept
from grafana.panels import BUCKET_COLOURS, PHASE_COLOURS, RUN_COLOURS, Overrides, dashed, fixed
from grafana.queries import by, called, column, latest, named, of_result, or_none, state_or_outcome
from grafana.table_panels import RANGE_OF_RUN, TableColumn, ranking, rows, share
from grafana.transformations import in_parts, over, over_clock
from mlbench.contract import names, palette

_RUNS: Final = 'run_id=~"$run_id"'
_PHASES: Final = "|".join(names.phase_metric(phase) for phase in names.PHASES)

# Metrics of each step, and totals. They are not results, and have far too many values.
_NO_RESULT: Final = "|".join((names.TRAIN_LOSS, *names.OF_EACH_STEP, _PHASES))
_IS_RESULT: Final = f'metric!~"{_NO_RESULT}"'

# All ranks record the same value for the whole validation set; posted values have no rank. Metrics
# of each step are excluded even if a URL names them: they would block a browser for minutes.
_RANK_0: Final = f'{_RUNS},rank=~"0|"'
_OF_CLOCK: Final = f'metric="{names.TRAIN_SECONDS}"'
_OF_RESULT: Final = f'metric="$metric",{_IS_RESULT}'
_CLOCK: Final = f"mlbench_run_metric{{{_RANK_0},{_OF_CLOCK}}}"
_MEASURED: Final = f"mlbench_run_metric{{{_RANK_0},{_OF_RESULT}}}"

# Each run with the labels "run" (name, workers, number) and "workers" (benchmark, workers). Runs of
# a benchmark set also have "set" and "swept" (swept values, workers), and are named by their swept
# values. Names are shortened here: an axis would cut them on the left, a column on the right.
_BY: Final = " \N{MULTIPLICATION SIGN}"
_NAMED: Final = named(latest(f"mlbench_run_info{{{_RUNS}}}"))
_SETS: Final = by("run_id, set, swept", latest(f"{names.RUN_SET_INFO}{{{_RUNS}}}"))
_OF_SETS: Final = (
    f"({_NAMED} * on (run_id) group_left (set, swept) {_SETS} or on (run_id) {_NAMED})"
)
_CUT: Final = (
    "label_replace(label_replace(label_replace(label_replace("
    f'{_OF_SETS}, "run", "$1", "name", "(.*)"),'
    ' "run", "$1\N{HORIZONTAL ELLIPSIS}", "name", "(.{14}).{3,}"),'
    ' "run", "$1", "swept", "(.+)"), "run", "$1\N{HORIZONTAL ELLIPSIS}", "swept", "(.{28}).{3,}")'
)
_SIZED: Final = f'label_join({_CUT}, "run", "{_BY}", "run", "workers")'
_NUMBERED: Final = f'label_join({_SIZED}, "run", " #", "run", "run_id")'
_SET: Final = f'label_replace({_NUMBERED}, "set", "no set", "set", "")'
_SWEPT: Final = (
    f'label_replace(label_join({_SET}, "swept", "{_BY}", "swept", "workers"),'
    f' "swept", "no sweep$1", "swept", "({_BY}.*)")'
)
_LABELS: Final = "run, benchmark, workers, set, swept"
_INFO: Final = by(
    f"run_id, {_LABELS}", f'label_join({_SWEPT}, "workers", "{_BY}", "benchmark", "workers")'
)


def _of_runs(series: str, only: str = "") -> str:
    """Return the newest value of each run, with the labels of ``_INFO``."""
    return _labelled(by("run_id", latest(f"{series}{{{_RUNS}{only}}}")))


def _of_results(series: str, labels: str = "run_id") -> str:
    """Return a figure of the results of ended runs, with the labels of ``_INFO``."""
    return _labelled(by(labels, of_result(f"{series}{{{_RUNS}}}")))


def _labelled(expr: str) -> str:
    return f"{expr} * on (run_id) group_left ({_LABELS}) {_INFO}"


def _grouped(expr: str, labels: str = "bar") -> str:
    """Return the mean over the runs of a bar, which have the same value of the chosen label."""
    return f'avg by ({labels}) (label_join({expr}, "bar", "", "$group"))'


_FINISHED = by("run_id", latest(f"mlbench_run_finished_timestamp_seconds{{{_RUNS}}}"))


def _or_so_far(result: str, so_far: str) -> str:
    """Return a figure of the results, and the present value of active runs."""
    return f"({result} or ({so_far} unless on (run_id) {_FINISHED}))"


_WORKERS = _of_runs("mlbench_run_workers")
_THROUGHPUT = _or_so_far(
    _of_results(names.RUN_SAMPLES_PER_SECOND), _of_runs("run:mlbench_run_throughput:mean")
)
_TIME_TO_TARGET = _of_results(names.RUN_TIME_TO_TARGET)
_STARTED = _of_runs("mlbench_run_started_timestamp_seconds")
_REACHED = _of_runs("mlbench_run_target_reached_timestamp_seconds")

# Baseline: for each benchmark, the chosen runs with the fewest workers. A benchmark whose runs all
# have the same number of workers has no baseline.
_MIN_WORKERS = f"(min by (benchmark) ({_WORKERS}) < on (benchmark) max by (benchmark) ({_WORKERS}))"
_BASELINE = f"({_WORKERS}) == on (benchmark) group_left () {_MIN_WORKERS}"


def _baseline_of(expr: str) -> str:
    return f"avg by (benchmark) ({expr} and on (run_id) ({_BASELINE}))"


# A dashed line for each target of a benchmark, from the start to the end of the longest run.
_TARGET = _of_runs("mlbench_run_target", ',metric="$metric"')
_TARGET_OF_RUN = (
    f'{_TARGET} * on (run_id) group_left (target) count_values by (run_id) ("target", {_TARGET})'
)
_TARGETS = (
    f"label_join({called('line', 'target', f'max by (benchmark, target) ({_TARGET_OF_RUN})')},"
    ' "run", " ", "line", "target", "benchmark")'
)
# A graph over something has no words of ours where there are no values: the legend says them.
_NO_VALUES: Final = "No run records this metric and its training time"
_ONE_SIZE: Final = "Choose different numbers of workers"
_UNSEEN: Final = fixed("transparent") | {"custom.axisSoftMax": 1}
_WORDS: Final[Overrides] = dict.fromkeys((_NO_VALUES, _ONE_SIZE), _UNSEEN)


def _at_both_ends(left: str, right: str) -> str:
    """Return two points of a line, distinguished by the label ``run_id``."""
    ends = {"left": left, "right": right}
    return " or ".join(called("run_id", end, expr) for end, expr in ends.items())


_TARGET_ENDS = _at_both_ends(f"{_TARGETS} * 0", f"{_TARGETS} * 0 + scalar(max({latest(_CLOCK)}))")


def _or_nothing(expr: str) -> str:
    """Add a row without a run: results are merged by the label of a run, so each needs a row."""
    return f"{expr} or on () {called('run_id', 'none', 'vector(NaN)')}"


def _if_values(expr: str) -> str:
    """Return an expression if runs record the metric, else a single row that says so."""
    there = f"on () (count({latest(_MEASURED)} and on (run_id) {latest(_CLOCK)}) > 0)"
    return (
        f"({expr}) and {there} or on () ({called('run', _NO_VALUES, 'vector(0)')} unless {there})"
    )


_IDEAL = f"({_WORKERS}) / on (benchmark) group_left () {_MIN_WORKERS}"
_SPEEDUP = f"({_THROUGHPUT}) / on (benchmark) group_left () {_baseline_of(_THROUGHPUT)}"
_EFFICIENCY = f"({_SPEEDUP}) / ({_IDEAL})"
_SOONER = f"{_baseline_of(_TIME_TO_TARGET)} / on (benchmark) group_right () ({_TIME_TO_TARGET})"

# Reasons why an efficiency may not be due to the number of workers. The page has more.
_DISTURBED = _of_runs("mlbench_run_disturbed")
_CORES = f"{_of_runs('mlbench_run_cpus')} or on (run_id) {_WORKERS} * 0"
_THREADS = _of_runs("mlbench_run_threads")
_REASONS: Final = {
    "a disturbed run": f"max by (benchmark) ({_DISTURBED}) == 1",
    "unequal cores": f"min by (benchmark) ({_CORES}) < max by (benchmark) ({_CORES})",
    "unequal threads": f"min by (benchmark) ({_THREADS}) < max by (benchmark) ({_THREADS})",
    "above 110 %": f"max by (benchmark) ({_EFFICIENCY}) > 1.1",
}
_DOUBT = " or on (benchmark) ".join(
    called("doubt", reason, f"({expr}) * 0 + 1") for reason, expr in _REASONS.items()
)


def _doubtful(expr: str) -> str:
    """Return the doubtful values, with the reason as the label "doubt"."""
    return f"({expr}) * on (benchmark) group_left (doubt) ({_DOUBT})"


# A text such as "153 %: a disturbed run", because its colour depends on another column.
_DOUBTS = (
    'label_join(count_values by (run_id, doubt) ("percent", '
    f'round({_doubtful(_EFFICIENCY)} * 100)), "doubtful", " %: ", "percent", "doubt")'
)


def _curve(expr: str) -> str:
    """Add the label "curve": the benchmark, and the reason for doubt."""
    joined = f'label_join({_doubtful(expr)}, "curve", ": ", "benchmark", "doubt")'
    plain = f'label_replace({expr}, "curve", "$1", "benchmark", "(.*)")'
    return f"({joined} or on (run_id) {plain})"


_IDEAL_CURVE = f'label_replace({_IDEAL}, "curve", "ideal $1", "benchmark", "(.*)")'
_IDEALS = f"{_IDEAL_CURVE} and on (benchmark) ({_SPEEDUP})"


def _more(expr: str) -> str:
    """Return the runs with more workers than their baseline."""
    return by("run_id", f"({expr}) unless on (run_id) ({_BASELINE})")


_TARGET_METRICS = f"count by (metric) ({latest(f'mlbench_run_target{{{_RUNS}}}')})"
_RESULTS = f"mlbench_run_metric{{{_RUNS},{_IS_RESULT}}}"
_METRICS = f"{_TARGET_METRICS} or count by (metric) ({latest(_RESULTS)}) * 0"

LEARNING: Final = (
    against(
        "Metric over training time",
        "The chosen metric over training time, evaluation excluded. Dashed: the targets. Values "
        "recorded without a training time, for example by a client that posts, are only on the "
        "web page, linked above.",
        samples_kept("value", _RANK_0, _OF_RESULT),
        column("target", _if_values(_or_nothing(_at_both_ends(_TARGETS, _TARGETS)))),
        samples_kept("clock", _RANK_0, _OF_CLOCK),
        column("ends", _if_values(_or_nothing(_TARGET_ENDS))),
        column("named", _STARTED),
        x="training time",
        unit="short",
        x_unit="s",
        width=14,
        height=11,
        data_points=10_000,
        points=VisibilityMode.ALWAYS,
        transformations=over_clock(("value", "target"), ("clock", "ends"), "run", "training time"),
        overrides={**RUN_COLOURS, "/^target/": dashed(palette.TARGET), **_WORDS},
    ),
    ranking(
        "Time to target (training)",
        "Training time until each run reached its target, evaluation excluded. Lower is better. "
        "Runs that have not reached the target are missing.",
        _grouped(_TIME_TO_TARGET),
        name="bar",
        unit="suffix: s",
        height=11,
        no_value="No run has reached its target",
    ),
)

_by_workers = partial(
    against,
    x="workers",
    width=7,
    x_unit="none",
    doubling=True,
    points=VisibilityMode.ALWAYS,
    least=0,
)
_SCALED = f"({_WORKERS}) and on (benchmark) ({_SPEEDUP}) or on () vector(1)"
SCALING: Final = (
    _by_workers(
        "Speed-up by number of workers",
        "Throughput relative to the chosen runs of the same benchmark with the fewest workers. "
        "Dashed: linear speed-up. Grey: doubtful, with the reason.",
        column("speed-up", or_none(f"{_curve(_SPEEDUP)} or {_IDEALS}", "curve", _ONE_SIZE)),
        column("workers", _SCALED),
        transformations=over("workers", "speed-up", "curve", keep="mean"),
        overrides={"/: /": fixed(palette.GREY), "/^ideal/": dashed(palette.GREY), **_WORDS},
    ),
    _by_workers(
        "Efficiency by number of workers",
        "Speed-up divided by the increase in workers. 100 % is linear; the rest is lost to "
        "communication and waiting. Grey: doubtful, with the reason.",
        column("efficiency", or_none(_curve(_EFFICIENCY), "curve", _ONE_SIZE)),
        column("workers", _SCALED),
        unit="percentunit",
        transformations=over("workers", "efficiency", "curve", keep="mean"),
        overrides={"/: /": fixed(palette.GREY), **_WORDS},
    ),
    ranking(
        "Samples/s",
        "Mean training throughput of the whole run, in samples per second, evaluation excluded. "
        "Higher is better.",
        _grouped(_THROUGHPUT),
        name="bar",
        most_first=True,
        unit="locale",
        decimals=0,
        no_value="No run counts its samples",
    ),
)

_RECORDED = latest(f'mlbench_run_metric{{{_RUNS},metric=~"{_PHASES}"}}')
_PHASES_SO_FAR = _labelled(
    f'avg by (run_id, phase) (label_replace({_RECORDED}, "phase", "$1", "metric", "(.*)_seconds"))'
)
_OF_PHASES = _of_results("mlbench_run_phase_seconds", "run_id, phase")
_PHASE_SECONDS = _grouped(_or_so_far(_OF_PHASES, _PHASES_SO_FAR), "bar, phase")
_OF_BUCKETS = _of_results("mlbench_run_goodput_seconds", "run_id, bucket")
_IN_BUCKETS = _grouped(_OF_BUCKETS, "bar, bucket")
_BUCKET_SHARES = f"{_IN_BUCKETS} / on (bar) group_left () sum by (bar) ({_IN_BUCKETS})"
_BAR_WORKERS = column("workers", _grouped(_WORKERS))

PHASES: Final = (
    stacked_bars(
        "Time by phase",
        "Mean time of a rank in each phase. The whole bar is training and evaluation time.",
        column("phases", _PHASE_SECONDS),
        _BAR_WORKERS,
        x="bar",
        unit="s",
        transformations=in_parts("bar", "phase", "phases", "workers", (*names.PHASES, "other")),
        overrides=PHASE_COLOURS,
        no_value="No run records phases",
    ),
    stacked_bars(
        "Goodput",
        "Share of each run's worker-seconds per bucket, over all attempts. Goodput is compute "
        "plus communication: the share that advanced the final model. Higher is better.",
        column("buckets", _BUCKET_SHARES),
        _BAR_WORKERS,
        x="bar",
        unit="percentunit",
        most=1,
        transformations=in_parts("bar", "bucket", "buckets", "workers", names.BUCKETS),
        overrides=BUCKET_COLOURS,
        no_value="No run has ended",
    ),
)

TABLE: Final = rows(
    "Compared runs",
    "The chosen runs, with the newest value of the chosen metric. Speed-up, efficiency and "
    "sooner (speed-up of the time to target) are relative to the runs of the benchmark with the "
    "fewest workers. Grey: doubtful; click for the differences.",
    column("workers", by("run_id, run, benchmark", _WORKERS)),
    column("states", state_or_outcome(_RUNS)),
    column("speedup", _more(_SPEEDUP)),
    column("efficiency", f"{_more(_EFFICIENCY)} unless on (run_id) ({_DOUBTS})"),
    column("doubt", f"{_DOUBTS} unless on (run_id) ({_BASELINE})"),
    column("time_to_target", by("run_id", _TIME_TO_TARGET)),
    column("sooner", _more(_SOONER)),
    column("result", by("run_id", newest_kept(_RANK_0, _OF_RESULT))),
    column("throughput", by("run_id", _THROUGHPUT)),
    column("since_start", f"{by('run_id', _REACHED)} - on (run_id) {by('run_id', _STARTED)}"),
    column("from", f"({by('run_id', _STARTED)} - 5) * 1000"),
    column("to", f"({_FINISHED} + 30) * 1000 or on (run_id) {by('run_id', _STARTED)} * 0"),
    columns=(
        TableColumn("run", width=215, links=(links.RUN_OF_ROW,)),
        TableColumn("workers", unit="none", decimals=0, width=95),
        TableColumn("throughput", "samples/s", unit="locale", decimals=0, width=85),
        TableColumn("time_to_target", "time to target", unit="suffix: s", width=105),
        TableColumn("sooner", unit="none", decimals=2, width=75),
        TableColumn("speedup", "speed-up", unit="none", decimals=2, width=80),
        share("efficiency", width=85, colours=thresholds.EFFICIENCY),
        TableColumn(
            "doubtful",
            "doubtful efficiency",
            width=190,
            mappings=(thresholds.matching(".+", palette.GREY),),
            links=(links.VERDICT,),
        ),
        TableColumn("result", "value", unit="short", width=70),
        TableColumn("state", width=95, mappings=thresholds.RUN_STATE),
        TableColumn("since_start", "target since start", unit="dthms", width=130),
        TableColumn("benchmark"),
        *RANGE_OF_RUN,
    ),
    sort_by="workers",
)

BOARD: Final = Board(
    uid="mlbench-compare",
    title="MLBench / Compare",
    description="Runs side by side: time to target, and speed-up with more workers.",
    source="grafana/boards/compare.py",
    time_from="now-24h",
    history=True,
    links=(links.above(links.VERDICT),),
    variables=(
        variables.master(),
        variables.benchmarks("Benchmarks of the runs to compare."),
        variables.choice(
            "newest", "Newest", ("6", "12", "30", "100"), "Number of newest runs to choose from."
        ),
        variables.runs('benchmark=~"$benchmark"', "$newest"),
        variables.query(
            "metric",
            "Metric",
            f"query_result(sort_desc({_METRICS}))",
            regex='/metric="(?<value>[^"]+)"/',
            sort=VariableSort.DISABLED,
            description="Metric to plot over training time. The target's metric comes first.",
        ),
        variables.choice(
            "group",
            "Bars",
            ("run", "workers", "set", "swept"),
            "Group bars by run, number of workers, benchmark set or swept values.",
        ),
    ),
    runs=_RUNS,
    rows=(
        Row("Time to target", LEARNING),
        Row("Scaling", SCALING),
        Row("Time breakdown", PHASES),
        Row("Table", (TABLE,)),
    ),
)
