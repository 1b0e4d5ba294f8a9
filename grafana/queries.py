"""Queries to Prometheus, and the PromQL that the boards share."""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import Dataquery, PromQueryFormat, QueryEditorMode

from mlbench.contract import names

DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

# Grafana has no unit for it.
CORES: Final = "suffix: cores"
# As "s", 0.4 s would be written as 400 ms.
SECONDS: Final = "suffix: s"
# Hours, minutes and seconds, where "s" would write "1.52 mins".
DURATION: Final = "dthms"

# Recorded values come with each step, more often than scrapes.
RECORDED_INTERVAL: Final = "100ms"
# As prometheus.yml has it for the parts of the installation.
_PARTS_INTERVAL: Final = "15s"


@dataclass(frozen=True)
class Query:
    """A query of a panel."""

    expr: str
    legend: str = "__auto"
    ref: str = ""
    """Its name, which is also that of its column in a table; a letter by default."""
    instant: bool = False
    table: bool = False
    interval: str | None = None

    def target(self, letter: str) -> Dataquery:
        """Write the query as Grafana stores it, named ``letter`` if it has no name."""
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


def graph(expr: str, legend: str) -> Query:
    """Ask for scraped series over time."""
    return Query(expr, legend)


def of_parts(expr: str, legend: str) -> Query:
    """Ask for series of the installation's parts over time, which are scraped less often."""
    return Query(expr, legend, interval=_PARTS_INTERVAL)


def recorded(expr: str, legend: str) -> Query:
    """Ask for recorded series over time, in full resolution where there is room."""
    return Query(expr, legend, interval=RECORDED_INTERVAL)


def value(expr: str, legend: str) -> Query:
    """Ask for the values at the end of the time range."""
    return Query(expr, legend, instant=True)


def column(ref: str, expr: str) -> Query:
    """Ask for a table's column: the values at the end of the time range, with labels."""
    return Query(expr, ref=ref, instant=True, table=True)


def history(ref: str, expr: str, interval: str | None = None) -> Query:
    """Ask for a table's column over time."""
    return Query(expr, ref=ref, table=True, interval=interval)


def rate(selector: str) -> str:
    """Compute the increase of a counter per second, over a span that fits the graph."""
    return f"rate({selector}[$__rate_interval])"


def in_each_step(selector: str, function: str = "last") -> str:
    """Take the newest value in each step of a graph: of the shortest run too, and none twice.

    A point tells of the step that it begins: after the last one, much of a day may follow.
    """
    return f"{function}_over_time({selector}[$__interval] offset -$__interval)"


def latest(selector: str) -> str:
    """Take the newest value in the time range, also of a run or worker that is gone now."""
    return f"last_over_time({selector}[$__range])"


def ever(selector: str, offset: str = "-$__interval") -> str:
    """Take, for all points of a graph alike, the newest value in the whole time range."""
    return f"last_over_time({selector}[$__range] @ end() offset {offset})"


def of_result(selector: str) -> str:
    """Take a figure of the results of runs that have ended.

    It is known some seconds after the end, when the time range may be over. So a value of the next
    minute comes before one that was told while the run went on.
    """
    return f"(last_over_time({selector}[1m] offset -1m) or {latest(selector)})"


def state_or_outcome(runs: str) -> str:
    """Take what runs achieved as the label ``state``, or their state until that is known.

    ``runs`` are the matchers that select them.
    """
    told = by("run_id, outcome", of_result(f"{names.RUN_OUTCOME}{{{runs}}}"))
    state = f"{by('run_id, state', latest(f'{names.RUN_STATE}{{{runs}}}'))} == 1"
    return f'label_replace({told}, "state", "$1", "outcome", "(.*)") or on (run_id) ({state})'


def newest_in_step(selector: str) -> str:
    """Take the newest scraped value of each step of a graph: none falls between two points."""
    return f"last_over_time({selector}[$__rate_interval])"


def called(label: str, name: str, expr: str) -> str:
    """Give the series of an expression a label, to tell them from others."""
    return f'label_replace({expr}, "{label}", "{name}", "", "")'


def age(timestamp: str) -> str:
    """Compute the seconds between a timestamp and its scrape."""
    return f"clamp_min(timestamp({timestamp}) - {timestamp}, 0)"


def by(labels: str, expr: str) -> str:
    """Keep one series for each value of the labels, without the labels of the scrape."""
    return f"max by ({labels}) ({expr})"


def named(runs: str) -> str:
    """Give runs a label "run" of number and name, and those of one's own code a benchmark."""
    known = f'label_replace({runs}, "benchmark", "own code", "benchmark", "")'
    return f'label_join({known}, "run", " ", "run_id", "name")'


def moment(event: str, runs: str = "") -> str:
    """Look up when runs were created, started, finished or reached their goal.

    ``runs`` is a selector such as ``{run_id="$run_id"}``; all runs if empty.
    """
    return by("run_id", latest(f"mlbench_run_{event}_timestamp_seconds{runs}"))


def duration(runs: str = "") -> str:
    """Compute the seconds from the start of runs to their end, or to now."""
    started = moment("started", runs)
    ended = f"({moment('finished', runs)} or on (run_id) {started} * 0 + time())"
    return f"{ended} - on (run_id) {started}"


def progress(value: str, goal: str, reached: str) -> str:
    """Compute how near each run is to its goal, from 0 to 1.

    ``value`` and ``goal`` have the labels ``run_id`` and ``metric``. As long as the goal is not
    ``reached``, it lies above the value if higher is better and below it if lower is better, so the
    smaller of both ratios is the progress.
    """
    return (
        f"max by (run_id) ({reached} * 0 + 1)"
        f" or max by (run_id) ((({value}) / on (run_id, metric) ({goal})) <= 1)"
        f" or max by (run_id) (({goal}) / on (run_id, metric) ({value}))"
    )


def or_none(expr: str, label: str, text: str) -> str:
    """Give 0, with a text as its label, while an expression finds nothing.

    So a timeline is a strip that says so, not an error, and a table a row.
    """
    return f"({expr}) or on () {called(label, text, 'vector(0)')}"
