"""Asks Prometheus what Grafana would ask it for a dashboard: variables, annotations and panels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from master.reading.promql import Found, PrometheusClient
from tests.grafana.dashboards import Dashboard, Panel, Target, Variable
from tests.grafana.templating import (
    Chosen,
    Scope,
    TimeRange,
    fixed_options,
    offered_labels,
    options_in,
    seconds,
    variable_argument,
)

_EVERYTHING = '{__name__=~".+"}'


@dataclass(frozen=True)
class View:
    """What a user looks at: a stretch of time, and the runs chosen where there is a choice."""

    name: str
    range: TimeRange
    run_ids: tuple[str, ...]
    """The first one, where only one can be chosen."""


@dataclass(frozen=True)
class Query:
    """What is asked at one place of a dashboard."""

    place: str
    """The panel's title, ``variable NAME`` or ``annotation NAME``."""
    ref_id: str
    expr: str
    instant: bool
    step: float
    """Seconds between two values; of no meaning for an instant query."""
    scope: Scope

    @property
    def text(self) -> str:
        """What is asked, with all variables filled in."""
        return self.scope.fill(self.expr)

    def asking(self, expr: str) -> "Query":
        """Return the query that asks something else at the same place."""
        return replace(self, expr=expr)


@dataclass(frozen=True)
class Asked:
    """A variable, and the values that it offers."""

    name: str
    query: Query
    options: tuple[str, ...]


class Grafana:
    """Asks for one view of a dashboard."""

    def __init__(self, prometheus: PrometheusClient, scrape_interval: float, view: View) -> None:
        self._prometheus = prometheus
        self._scrape_interval = scrape_interval
        self._view = view

    def choose(self, board: Dashboard) -> tuple[list[Asked], Scope]:
        """Return what each variable offers, and what is then chosen of it.

        As in Grafana, that is All where there is such a choice, else the first value; of runs,
        those of the view.
        """
        scope = Scope(built_in=self._view.range.built_in(self._scrape_interval))
        asked = []
        for variable in board.variables:
            options = tuple(self._options(variable, scope))
            step = self._view.range.step(self._scrape_interval)
            query = Query(f"variable {variable.name}", "", variable.query, False, step, scope)
            asked.append(Asked(variable.name, query, options))
            scope = scope.choose(variable.name, self._chosen(variable, options))
        return asked, scope

    def queries(self, board: Dashboard, scope: Scope, asked: Sequence[Asked]) -> Iterator[Query]:
        """Yield what the annotations and panels ask; a repeated panel's for each value."""
        for one in board.annotations:
            step = self._view.range.step(seconds(one.step))
            yield Query(f"annotation {one.name}", "", one.expr, False, step, scope)
        repeats = {row.title: row.repeat for row in board.panels if row.type == "row"}
        for panel in board.panels:
            by = panel.repeat or repeats.get(panel.row, "")
            options = next((one.options for one in asked if one.name == by), None)
            if options is None:
                yield from self._panel_queries(panel, scope)
            for option in options or ():
                yield from self._panel_queries(panel, scope.choose(by, Chosen((option,))))

    def ask(self, query: Query) -> list[Found]:
        """Return the series that have a number in the answer.

        Raises:
            PrometheusError: the query is refused.
        """
        over = self._view.range
        if query.instant:
            found = self._prometheus.query(query.text, over.last)
        else:
            first = over.first - over.first % query.step
            times = (round(moment * 1000) for moment in (first, over.last, query.step))
            found = self._prometheus.query_range(query.text, *times)
        return [one for one in found if any(value != "NaN" for value in one.values)]

    def _panel_queries(self, panel: Panel, scope: Scope) -> Iterator[Query]:
        for target in panel.targets:
            if target.expr:
                yield from self._target_queries(panel, target, scope)

    def _target_queries(self, panel: Panel, target: Target, scope: Scope) -> Iterator[Query]:
        asked = target.interval or panel.json.get("interval") or ""
        least = seconds(scope.fill(asked)) or self._scrape_interval
        scope = replace(scope, built_in=self._view.range.built_in(least))
        step = self._view.range.step(least)
        for instant in [True] * target.instant + [False] * target.range:
            yield Query(panel.title, target.ref_id, target.expr, instant, step, scope)

    def _options(self, variable: Variable, scope: Scope) -> list[str]:
        if variable.type == "datasource":
            return ["mlbench-prometheus"]
        if variable.type != "query":
            return fixed_options(variable)
        return options_in(self._found(variable, scope), scope.fill(variable.regex))

    def _found(self, variable: Variable, scope: Scope) -> list[str]:
        """Return the texts that a variable's query finds."""
        over = self._view.range
        argument = scope.fill(variable_argument(variable.query))
        if variable.query.startswith("query_result("):
            return [_text(one) for one in self._prometheus.query(argument, over.last)]
        if not variable.query.startswith("label_values("):
            raise ValueError(f"variables that ask for {variable.query} are not known here")
        [label] = offered_labels(variable)
        times = (round(over.first * 1000), round(over.last * 1000))
        series = self._prometheus.series(argument or _EVERYTHING, *times)
        return [one[label] for one in series if label in one]

    def _chosen(self, variable: Variable, options: tuple[str, ...]) -> Chosen:
        many = variable.multi or variable.include_all
        runs = tuple(one for one in self._view.run_ids if one in options)
        if runs and "run_id" in offered_labels(variable):
            return Chosen(runs if variable.multi else runs[:1], is_list=many)
        if variable.include_all:
            return Chosen(options, is_list=True, all_value=variable.all_value)
        return Chosen(options[:1], is_list=many)


def _text(found: Found) -> str:
    """Return a series as ``query_result`` gives it to a variable's regex."""
    labels = {key: value for key, value in found.labels.items() if key != "__name__"}
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    name = found.labels.get("__name__", "")
    return f"{name}{{{inside}}} {found.values[-1]} {found.times[-1] * 1000:.0f}"
