"""Board with the learning curves of runs and the figures of their results.

It computes nothing. Speed-up, time breakdown and the verdict are on the web page, which it links.
"""

from typing import Final

from grafana_foundation_sdk.models.common import VisibilityMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.graphs import against
from grafana.line import samples_kept
from grafana.panels import RUN_COLOURS, dashed, fixed
from grafana.queries import (
    SECONDS,
    by,
    called,
    column,
    latest,
    moment,
    named,
    of_result,
    run_range,
    state_or_outcome,
    time_to_target,
    with_benchmark,
)
from grafana.table_panels import RANGE_OF_RUN, PanelColumn, ranking, rows, share
from grafana.transformations import over_clock
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

# Each run with the labels "run" (number, name, workers) and "benchmark". Runs of a set are
# named by their swept values. Names are shortened, because charts have little space for them.
_INFO_OF_RUNS: Final = latest(f"mlbench_run_info{{{_RUNS}}}")
_SWEPT: Final = by("run_id, swept", latest(f"{names.RUN_SET_INFO}{{{_RUNS}}}"))
_OF_SETS: Final = (
    f"({_INFO_OF_RUNS} * on (run_id) group_left (swept) {_SWEPT} or on (run_id) {_INFO_OF_RUNS})"
)
_TITLED: Final = (
    f'label_replace(label_replace(label_replace({_OF_SETS}, "title", "$1", "name", "(.*)"),'
    ' "title", "$1", "swept", "(.+)"),'
    ' "title", "$1\N{HORIZONTAL ELLIPSIS}", "title", "(.{26}).{3,}")'
)
_SIZE: Final = "\N{MULTIPLICATION SIGN}$1"
_SIZED: Final = f'label_replace({named(_TITLED, "title")}, "size", "{_SIZE}", "workers", "(.*)")'
_INFO: Final = by("run_id, run, benchmark", f'label_join({_SIZED}, "run", " ", "run", "size")')


def _labelled(expr: str) -> str:
    return f"{expr} * on (run_id) group_left (run, benchmark) {_INFO}"


def _of_results(series: str, labels: str = "run_id") -> str:
    """Return a figure of the results of ended runs."""
    return by(labels, of_result(f"{series}{{{_RUNS}}}"))


def _of_runs(series: str) -> str:
    """Return the newest value of each run."""
    return by("run_id", latest(f"{series}{{{_RUNS}}}"))


_WORKERS = _of_runs("mlbench_run_workers")
_STARTED, _REACHED, _FINISHED = (
    moment(event, f"{{{_RUNS}}}") for event in ("started", "target_reached", "finished")
)
_FROM, _TO = run_range(f"{{{_RUNS}}}")
_TIME_TO_TARGET = time_to_target(_RUNS)
_SO_FAR = f"{_of_runs('run:mlbench_run_throughput:mean')} unless on (run_id) {_FINISHED}"
_THROUGHPUT = f"({_of_results(names.RUN_SAMPLES_PER_SECOND)} or {_SO_FAR})"

# A dashed line for each target of a benchmark, from the start to the end of the longest curve.
_BENCHMARKS = by("run_id, benchmark", with_benchmark(_INFO_OF_RUNS))
_TARGET = (
    by("run_id", latest(f'mlbench_run_target{{{_RUNS},metric="$metric"}}'))
    + f" * on (run_id) group_left (benchmark) {_BENCHMARKS}"
)
_TARGET_OF_RUN = (
    f'{_TARGET} * on (run_id) group_left (target) count_values by (run_id) ("target", {_TARGET})'
)
_TARGETS = (
    f"label_join({called('line', 'target', f'max by (benchmark, target) ({_TARGET_OF_RUN})')},"
    ' "run", " ", "line", "target", "benchmark")'
)
_LONGEST = f"scalar(max({latest(_CLOCK)} and on (run_id) {latest(_MEASURED)}))"
_NO_VALUES: Final = "No run records this metric and its training time"
_UNSEEN: Final = fixed("transparent") | {"custom.axisSoftMax": 1}


def _target_lines(left: str, right: str) -> str:
    """Return both ends of each target's line; a row with a text if no run records the metric.

    An XY graph cannot show our text if it has no values, so the legend shows it.
    """
    lines = f"{called('run_id', 'left', left)} or {called('run_id', 'right', right)}"
    # Results are merged by the label of a run, so a result without lines needs a row, too.
    no_line = called("run_id", "none", "vector(NaN)")
    text = called("run", _NO_VALUES, "vector(0)")
    has_values = f"on () (count({latest(_MEASURED)} and on (run_id) {latest(_CLOCK)}) > 0)"
    return f"({lines} or on () {no_line}) and {has_values} or on () ({text} unless {has_values})"


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
        column("target", _target_lines(_TARGETS, _TARGETS)),
        samples_kept("clock", _RANK_0, _OF_CLOCK),
        column("ends", _target_lines(f"{_TARGETS} * 0", f"{_TARGETS} * 0 + {_LONGEST}")),
        column("named", _labelled(_STARTED)),
        x="training time",
        unit="short",
        x_unit=SECONDS,
        width=14,
        height=11,
        data_points=10_000,
        points=VisibilityMode.ALWAYS,
        transformations=over_clock(("value", "target"), ("clock", "ends"), "run", "training time"),
        overrides={**RUN_COLOURS, "/^target/": dashed(palette.TARGET), _NO_VALUES: _UNSEEN},
    ),
    ranking(
        "Time to target (training)",
        "Training time until each run reached its target, evaluation excluded. Lower is better. "
        "Runs that have not reached the target are missing.",
        _labelled(_TIME_TO_TARGET),
        name="run",
        name_width=240,
        unit=SECONDS,
        height=11,
        no_value="No run has reached its target",
    ),
)

TABLE: Final = rows(
    "Compared runs",
    "The chosen runs with the figures of their results. CPU contention: share of time in which "
    "other programs held a core of the most affected rank. Click a run for its board. Whether the "
    "runs can be compared is on the web page, linked above.",
    column("workers", _labelled(_WORKERS)),
    column("states", state_or_outcome(_RUNS)),
    column("time_to_target", _TIME_TO_TARGET),
    column("since_start", f"{_REACHED} - on (run_id) {_STARTED} and on (run_id) {_TIME_TO_TARGET}"),
    column("throughput", _THROUGHPUT),
    column("best", _of_results(names.RUN_BEST_VALUE, "run_id, metric")),
    column("contention", _of_results(names.RUN_CONTENTION_RATIO)),
    column("from", _FROM),
    column("to", _TO),
    columns=(
        PanelColumn("run", width=272, links=(links.RUN_OF_ROW,)),
        PanelColumn("state", "outcome", width=145, mappings=thresholds.RUN_STATE),
        PanelColumn("time_to_target", "time to target", unit=SECONDS, width=116),
        PanelColumn("since_start", "wall clock", unit=SECONDS, width=86),
        PanelColumn("throughput", "samples/s", unit="locale", decimals=0, width=87),
        PanelColumn("best", unit="short", width=60),
        share("contention", "contention", width=94, colours=thresholds.DISTURBED),
        PanelColumn("workers", unit="none", decimals=0, width=70),
        PanelColumn("benchmark", width=120),
        PanelColumn("metric", mappings=thresholds.METRIC),
        *RANGE_OF_RUN,
    ),
    sort_by="run",
    descending=True,
)

BOARD: Final = Board(
    uid="mlbench-compare",
    title="MLBench / Compare",
    description="Runs side by side: learning curves, time to target and where the time goes.",
    source="grafana/boards/compare.py",
    time_from="now-24h",
    history=True,
    links=(links.above(links.VERDICT),),
    variables=(
        variables.master(),
        variables.benchmark_of_newest_run(
            "Benchmarks of the runs to compare; by default that of the newest run."
        ),
        variables.choice(
            "newest", "Newest", ("6", "12", "30", "100"), "Number of newest runs to choose from."
        ),
        variables.runs('benchmark=~"${benchmark:pipe}"', "$newest"),
        variables.query(
            "metric",
            "Metric",
            f"query_result(sort_desc({_METRICS}))",
            regex='/metric="(?<value>[^"]+)"/',
            sort=VariableSort.DISABLED,
            description="Metric to plot over training time. The target's metric comes first.",
        ),
    ),
    runs=_RUNS,
    rows=(
        Row("Time to target", LEARNING),
        Row("Results", (TABLE,)),
    ),
)
