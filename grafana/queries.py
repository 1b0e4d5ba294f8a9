"""Queries: how Prometheus is asked, and the pieces of PromQL that the boards share."""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import Dataquery, PromQueryFormat, QueryEditorMode

DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

# A unit that Grafana does not know.
CORES: Final = "suffix: cores"

# Recorded values come as fast as the steps, not at the pace of the scrapes.
RECORDED_INTERVAL: Final = "100ms"


@dataclass(frozen=True)
class Query:
    """One question to Prometheus."""

    expr: str
    legend: str = "__auto"
    ref: str = ""
    """What the answer's column is called in a table; a letter if it does not matter."""
    instant: bool = False
    table: bool = False
    interval: str | None = None

    def target(self, letter: str) -> Dataquery:
        """Return the query as a panel holds it."""
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


def recorded(expr: str, legend: str) -> Query:
    """Ask for recorded series over time, every step of them where there is room."""
    return Query(expr, legend, interval=RECORDED_INTERVAL)


def value(expr: str, legend: str) -> Query:
    """Ask for the values at the end of the time range."""
    return Query(expr, legend, instant=True)


def column(ref: str, expr: str) -> Query:
    """Ask for a table's column: the values at the end of the time range, with their labels."""
    return Query(expr, ref=ref, instant=True, table=True)


def history(ref: str, expr: str, interval: str | None = None) -> Query:
    """Ask for a table's column over time."""
    return Query(expr, ref=ref, table=True, interval=interval)


def rate(selector: str) -> str:
    """Return the increase of a counter per second, over a span that fits the graph."""
    return f"rate({selector}[$__rate_interval])"


def latest(selector: str) -> str:
    """Return the newest value of the time range, also of a run or worker that has gone since."""
    return f"last_over_time({selector}[$__range])"


def age(timestamp: str) -> str:
    """Return the seconds since a time, as of the scrape: no older because nobody scraped."""
    return f"timestamp({timestamp}) - {timestamp}"


def by(labels: str, expr: str) -> str:
    """Return one series for each value of the labels: without those of the scrape."""
    return f"max by ({labels}) ({expr})"


def moment(event: str, runs: str = "") -> str:
    """Return when runs were created, started, finished, or reached their goal.

    ``runs`` selects them: ``{run_id="$run_id"}``; all of them if empty.
    """
    return by("run_id", latest(f"mlbench_run_{event}_timestamp_seconds{runs}"))


def duration(runs: str = "") -> str:
    """Return the seconds since runs started, up to their end if they have ended."""
    started = moment("started", runs)
    ended = f"({moment('finished', runs)} or on (run_id) {started} * 0 + time())"
    return f"{ended} - on (run_id) {started}"


def progress(value: str, goal: str, reached: str) -> str:
    """Return how near each run is to its goal, from 0 to 1.

    ``value`` and ``goal`` have the labels ``run_id`` and ``metric``. A goal that is not ``reached``
    yet lies above the value if higher is better, and below if lower is: so it works for both.
    """
    return (
        f"max by (run_id) ({reached} * 0 + 1)"
        f" or max by (run_id) ((({value}) / on (run_id, metric) ({goal})) <= 1)"
        f" or max by (run_id) (({goal}) / on (run_id, metric) ({value}))"
    )


def while_running(expr: str, run: str) -> str:
    """Return a graph that ends where the run does, not when Prometheus forgets its last value.

    ``run`` selects the runs: ``run_id="$run_id"``.
    """
    return (
        f"({expr}) unless on (run_id) "
        f"(max by (run_id) (mlbench_run_finished_timestamp_seconds{{{run}}}) < time())"
    )
