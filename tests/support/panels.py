"""Send a dashboard's queries to Prometheus as Grafana would: variables, annotations, panels."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from mlbench_master.reading.promql import PrometheusClient, QueryResult
from tests.support.dashboards import REFERENCE, Dashboard, Json, load, variable_argument

# Grafana requests about one point per pixel.
_POINTS = 1000
# Scrape interval of the local stack's Prometheus.
_SCRAPE_SECONDS = 2.0
_SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|]")
_SECONDS = {"": _SCRAPE_SECONDS, "2s": 2.0, "15s": 15.0, "100ms": 0.1}


@dataclass(frozen=True)
class View:
    """A time range in Unix seconds, and the selected run."""

    name: str
    first: float
    last: float
    run_id: str
    """Selected run, or several separated by ``|``."""

    def step(self, least: float, points: int) -> float:
        """Return the seconds between two points of a graph."""
        return max(least, round((self.last - self.first) / points, 3))

    def built_in(self, least: float, points: int) -> dict[str, str]:
        """Return Grafana's built-in variables for a query with this minimum step."""
        step = self.step(least, points)
        return {
            "__interval": f"{step * 1000:.0f}ms",
            "__rate_interval": f"{max(step + least, 4 * least) * 1000:.0f}ms",
            "__interval_ms": f"{step * 1000:.0f}",
            "__range": f"{self.last - self.first:.0f}s",
            "__range_s": f"{self.last - self.first:.0f}",
        }


@dataclass(frozen=True)
class Query:
    """A query in a dashboard, with the values of its variables."""

    place: str
    """The panel's title, ``variable NAME`` or ``annotation NAME``."""
    ref: str
    expr: str
    instant: bool
    least_step: float
    variables: Mapping[str, str]
    points: int = _POINTS
    options: tuple[str, ...] | None = None
    """Values that a variable offers; None unless the query belongs to a variable."""

    def text(self, view: View) -> str:
        """Return the query with all variables filled in.

        Raises:
            KeyError: a variable is unknown.
        """
        known = {**view.built_in(self.least_step, self.points), **self.variables}

        def fill(reference: re.Match[str]) -> str:
            text = known[reference["braced"] or reference["plain"]]
            # The "pipe" format does not escape regular expressions.
            return text.replace(r"\\", "") if reference.group().endswith(":pipe}") else text

        return REFERENCE.sub(fill, self.expr)

    def asking(self, expr: str) -> "Query":
        """Return a copy with another expression."""
        return replace(self, expr=expr, options=None)


class Grafana:
    """Runs the queries of a dashboard for one view."""

    def __init__(
        self, prometheus: PrometheusClient, view: View, chosen: Mapping[str, str] | None = None
    ) -> None:
        """Prepare the queries of a view; ``chosen`` overrides variables that have fixed options."""
        self._prometheus = prometheus
        self._view = view
        self._chosen = chosen or {}

    def queries(self, board: Dashboard) -> Iterator[Query]:
        """Yield all queries of a dashboard. Variables are resolved on the way.

        A repeated panel yields its queries once for each value of its variable.
        """
        chosen: dict[str, str] = {}
        offered: dict[str, tuple[str, ...]] = {}
        for variable in board.variables:
            if variable["type"] == "custom":
                current = {variable["name"]: variable["current"]["value"]}
                chosen = {**chosen, **current, **self._chosen}
            if variable["type"] == "query":
                name, expr = variable["name"], variable_argument(variable["definition"])
                query = Query(f"variable {name}", "", expr, False, _SCRAPE_SECONDS, chosen)
                offered[name] = self._options(variable, query)
                yield replace(query, options=offered[name])
                chosen = {**chosen, name: self._choice(variable, offered[name])}
        for note in board.annotations:
            step = _SECONDS[note["step"]]
            yield Query(f"annotation {note['name']}", "", note["expr"], False, step, chosen)
        for panel in board.panels:
            by = panel.get("repeat")
            for scope in [{**chosen, by: value} for value in offered[by]] if by else [chosen]:
                for target in panel["targets"]:
                    least = _SECONDS[target.get("interval", "")]
                    ref, instant = target["refId"], target["instant"]
                    points = panel.get("maxDataPoints", _POINTS)
                    yield Query(panel["title"], ref, target["expr"], instant, least, scope, points)

    def ask(self, query: Query, *, bare: bool = False) -> list[QueryResult]:
        """Return the series that contain a number; with ``bare`` also the others.

        Raises:
            PrometheusError: the query is refused.
            KeyError: a variable is unknown.
        """
        text, view = query.text(self._view), self._view
        if query.instant:
            rows = self._prometheus.query(text, view.last)
        else:
            step = view.step(query.least_step, query.points)
            # Round down as Grafana does, so that `end()` is the time of the last point.
            times = (view.first - view.first % step, view.last - view.last % step, step)
            rows = self._prometheus.query_range(text, *(round(time * 1000) for time in times))
        return [row for row in rows if bare or any(value != "NaN" for value in row.values)]

    def answers(self, uid: str, *, bare: bool = False) -> dict[str, list[QueryResult]]:
        """Return the results of a board's panels and annotations, by ``PLACE / REF``."""
        results: defaultdict[str, list[QueryResult]] = defaultdict(list)
        for query in self.queries(load(uid)):
            if query.options is None:
                results[f"{query.place} / {query.ref}"] += self.ask(query, bare=bare)
        return results

    def _options(self, variable: Json, query: Query) -> tuple[str, ...]:
        view, text = self._view, query.text(self._view)
        if variable["regex"]:
            # The variable's regex matches series that are formatted as text.
            pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
            lines = [_as_text(row) for row in self._prometheus.query(text, view.last)]
            matches = (match for line in lines for match in pattern.finditer(line))
            return tuple(dict.fromkeys(match["value"] for match in matches))
        label = variable["definition"].removesuffix(")").rpartition(", ")[2]
        series = self._prometheus.series(text, round(view.first * 1000), round(view.last * 1000))
        values = {labels[label] for labels in series if label in labels}
        return tuple(sorted(values))

    def _choice(self, variable: Json, options: Sequence[str]) -> str:
        """Return the selected value: the view's run, or All if the variable offers it."""
        if variable["name"] == "run_id":
            options = [option for option in self._view.run_id.split("|") if option in options]
        elif variable["includeAll"] and "allValue" in variable:
            all_value: str = variable["allValue"]
            return all_value
        if not variable["multi"]:
            return next(iter(options), "")
        return "|".join(
            _SPECIAL.sub(lambda match: rf"\\{match.group()}", option) for option in options
        )


def ask_board(
    url: str, uid: str, view: View, chosen: Mapping[str, str] | None = None, *, bare: bool = False
) -> dict[str, list[QueryResult]]:
    """Query a Prometheus for the panels and annotations of a board."""
    with closing(PrometheusClient(url)) as prometheus:
        return Grafana(prometheus, view, chosen).answers(uid, bare=bare)


def _as_text(result: QueryResult) -> str:
    labels = (f'{key}="{value}"' for key, value in result.labels.items())
    return f"{{{','.join(labels)}}}"
