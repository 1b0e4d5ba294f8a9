"""Prometheus queries, and PromQL that the boards share."""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import Dataquery, PromQueryFormat, QueryEditorMode

from mlbench.contract import names

DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

# Grafana has no unit for cores.
CORES: Final = "suffix: cores"
# With the unit "s", Grafana would show 0.4 s as 400 ms.
SECONDS: Final = "suffix: s"
# Hours, minutes and seconds; the unit "s" would show "1.52 mins".
DURATION: Final = "dthms"

# Values are recorded with each step, more often than scrapes.
RECORDED_INTERVAL: Final = "100ms"
# Scrape interval of the components of the installation, as in prometheus.yml.
_PARTS_INTERVAL: Final = "15s"


@dataclass(frozen=True)
class PanelQuery:
    """A query of a panel."""

    expr: str
    legend: str = "__auto"
    ref: str = ""
    """Name of the query and of its column in a table; a letter by default."""
    instant: bool = False
    table: bool = False
    interval: str | None = None

    def target(self, letter: str) -> Dataquery:
        """Return the query as Grafana stores it, named ``letter`` if it has no name."""
        return Dataquery(
            datasource=DATASOURCE,
            expr=self.expr,
            legend_format=self.legend,
            ref_id=self.ref or letter,
            instant=self.instant,
            range_val=not self.instant,
            format_val=PromQueryFormat.TABLE if self.table else PromQueryFormat.TIME_SERIES,
            interval=self.interval,
            exemplar=False,
            editor_mode=QueryEditorMode.CODE,
        )


def graph(expr: str, legend: str) -> PanelQuery:
    """Query scraped series over time."""
    return PanelQuery(expr, legend)


def of_parts(expr: str, legend: str) -> PanelQuery:
    """Query series of the installation's components over time; they are scraped less often."""
    return PanelQuery(expr, legend, interval=_PARTS_INTERVAL)


def recorded(expr: str, legend: str) -> PanelQuery:
    """Query recorded series over time, in full resolution if the graph is wide enough."""
    return PanelQuery(expr, legend, interval=RECORDED_INTERVAL)


def value(expr: str, legend: str) -> PanelQuery:
    """Query the values at the end of the time range."""
    return PanelQuery(expr, legend, instant=True)


def column(ref: str, expr: str) -> PanelQuery:
    """Query a table column: the values at the end of the time range, with labels."""
    return PanelQuery(expr, ref=ref, instant=True, table=True)


def history(ref: str, expr: str, interval: str | None = None) -> PanelQuery:
    """Query a table column over time."""
    return PanelQuery(expr, ref=ref, table=True, interval=interval)


def rate(selector: str) -> str:
    """Return the rate of a counter, over an interval that fits the graph."""
    return f"rate({selector}[$__rate_interval])"


def in_each_step(selector: str, function: str = "last") -> str:
    """Return the newest value in each step of a graph, without gaps or overlaps between steps.

    A point covers the step that starts at it, because a step can be a large part of a day.
    """
    return f"{function}_over_time({selector}[$__interval] offset -$__interval)"


def latest(selector: str) -> str:
    """Return the newest value in the time range, even if its run or worker no longer exists."""
    return f"last_over_time({selector}[$__range])"


def ever(selector: str, offset: str = "-$__interval") -> str:
    """Return the newest value in the whole time range, at every point of a graph."""
    return f"last_over_time({selector}[$__range] @ end() offset {offset})"


def of_result(selector: str) -> str:
    """Return a figure of the results of ended runs.

    It is known some seconds after the end, possibly after the end of the time range. So a value of
    the next minute is preferred to one that was reported during the run.
    """
    return f"(last_over_time({selector}[1m] offset -1m) or {latest(selector)})"


def time_to_target(runs: str = "") -> str:
    """Return the training time of runs until their target, in seconds.

    Runs whose loss became NaN have none, even if they reported one before their end.
    """
    diverged = latest(f'{names.RUN_OUTCOME}{{{runs}{"," if runs else ""}outcome="nan"}}')
    reached = by("run_id", of_result(f"{names.RUN_TIME_TO_TARGET}{{{runs}}}"))
    return f"({reached} unless on (run_id) {diverged})"


def state_or_outcome(runs: str) -> str:
    """Return the outcome of runs as the label ``state``, or their state until it is known.

    ``runs`` are label matchers.
    """
    result = of_result(f"{names.RUN_OUTCOME}{{{runs}}}")
    outcome = by("run_id, state", f'label_replace({result}, "state", "$1", "outcome", "(.*)")')
    state = f"{by('run_id, state', latest(f'{names.RUN_STATE}{{{runs}}}'))} == 1"
    return f"{outcome} or on (run_id) ({state})"


def newest_in_step(selector: str) -> str:
    """Return the newest scraped value in each step of a graph, without gaps between points."""
    return f"last_over_time({selector}[$__rate_interval])"


def called(label: str, name: str, expr: str) -> str:
    """Add a label to the series of an expression, to distinguish them from others."""
    return f'label_replace({expr}, "{label}", "{name}", "", "")'


def age(timestamp: str) -> str:
    """Return the seconds between a timestamp and its scrape."""
    return f"clamp_min(timestamp({timestamp}) - {timestamp}, 0)"


def by(labels: str, expr: str) -> str:
    """Keep one series for each value of the labels, without the labels of the scrape."""
    return f"max by ({labels}) ({expr})"


def with_benchmark(runs: str) -> str:
    """Add the benchmark "own code" to runs of the user's own code."""
    return f'label_replace({runs}, "benchmark", "own code", "benchmark", "")'


def named(runs: str, title: str = "name") -> str:
    """Add the label "run": number, and the label ``title``; also a benchmark to own code.

    Isolates (U+2068, U+2069) around the title keep a name in Hebrew or Arabic from reordering the
    text around it.
    """
    isolated = f'label_replace({with_benchmark(runs)}, "run", "\u2068$1\u2069", "{title}", "(.*)")'
    return f'label_join({isolated}, "run", " ", "run_id", "run")'


def moment(event: str, runs: str = "") -> str:
    """Return when runs were created, started, finished or reached their target.

    ``runs`` is a selector such as ``{run_id="$run_id"}``; all runs if empty.
    """
    return by("run_id", latest(f"mlbench_run_{event}_timestamp_seconds{runs}"))


def duration(runs: str = "") -> str:
    """Compute the seconds from the start of runs to their end, or to now."""
    started = moment("started", runs)
    ended = f"({moment('finished', runs)} or on (run_id) {started} * 0 + time())"
    return f"{ended} - on (run_id) {started}"


def run_range(runs: str = "") -> tuple[str, str]:
    """Return start and end of the time range that shows a whole run, in milliseconds.

    It is a little longer than the run, for its last scrapes. The end of an active run is 0.
    """
    start = f"({moment('started', runs)} or on (run_id) {moment('created', runs)})"
    end = f"({moment('finished', runs)} + 30) * 1000 or on (run_id) {start} * 0"
    return f"({start} - 5) * 1000", end


def progress(value: str, target: str, reached: str) -> str:
    """Compute how near each run is to its target, from 0 to 1.

    ``value`` and ``target`` have the labels ``run_id`` and ``metric``. Until the target is
    ``reached``, it is above the value if higher is better, and below it if lower is better. So the
    smaller of both ratios is the progress.
    """
    return (
        f"max by (run_id) ({reached} * 0 + 1)"
        f" or max by (run_id) ((({value}) / on (run_id, metric) ({target})) <= 1)"
        f" or max by (run_id) (({target}) / on (run_id, metric) ({value}))"
    )


def or_none(expr: str, label: str, text: str) -> str:
    """Return 0 with a text as its label while an expression has no result.

    A table then shows a row with the text, and a curve has it in its legend.
    """
    return f"({expr}) or on () {called(label, text, 'vector(0)')}"
