"""The rules of Grafana's dashboard-linter, written anew: each yields what it finds wrong.

The names are the linter's (https://github.com/grafana/dashboard-linter/tree/main/docs). Where the
linter looks at some types of panels, these look at all that show data. ``target-promql``, which
needs a parser of the whole language, is asked of promtool in test_linter.py.
"""

import re
from collections.abc import Iterator

from tests.grafana.dashboards import Dashboard
from tests.grafana.faults import Fault, Rule
from tests.grafana.promql import Selector, selectors

_PROMETHEUS = "prometheus"
_ON_TIME_RANGE_CHANGE = 2
_DATASOURCES = frozenset({"$datasource", "${datasource}"})
_VARIABLE_QUERY = re.compile(r"(label_names|label_values|metrics|query_result)\(.*\)", re.DOTALL)
_COUNTING = frozenset({"rate", "irate", "increase"})
# Those of Grafana's that fit what this project measures.
# fmt: off
_UNITS = frozenset(
    {
        "none", "short", "string", "sci", "locale", "percent", "percentunit",
        "bool", "bool_yes_no", "bool_on_off",
        "bytes", "decbytes", "Bps", "binBps", "bps",
        "s", "ms", "µs", "ns", "m", "h", "d", "dtdurations", "dtdurationms", "hertz",
        "cps", "ops", "reqps", "rps", "wps", "iops", "cpm", "opm",
        "watt", "joule", "watth", "kwatth", "celsius",
        "dateTimeAsIso", "dateTimeAsIsoNoDateIfToday", "dateTimeAsSystem", "dateTimeFromNow",
        "dateTimeAsLocal", "dateTimeAsLocalNoDateIfToday",
    }
)
# fmt: on


def template_datasource(board: Dashboard) -> Iterator[Fault]:
    """There is one variable for the data source, ``datasource``, and it is a Prometheus."""
    found = [one for one in board.variables if one.type == "datasource"]
    if [one.name for one in found] != ["datasource"]:
        yield Fault("dashboard", f"data source variables {[one.name for one in found]}")
    for one in found:
        if one.query != _PROMETHEUS:
            yield Fault(f"variable {one.name}", f"is for {one.query}")
        if one.label not in {"Data source", "Prometheus data source"}:
            yield Fault(f"variable {one.name}", f"is labelled {one.label!r}")


def template_label_promql(board: Dashboard) -> Iterator[Fault]:
    """A variable's query is one of the functions that Grafana offers for Prometheus."""
    for one in board.variables:
        if one.type == "query" and not _VARIABLE_QUERY.fullmatch(one.query.strip()):
            yield Fault(f"variable {one.name}", f"its query is {one.query!r}")


def template_on_time_change_reload(board: Dashboard) -> Iterator[Fault]:
    """Variables are asked for again when the time range changes."""
    for one in board.variables:
        if one.type == "query" and one.refresh != _ON_TIME_RANGE_CHANGE:
            yield Fault(f"variable {one.name}", f"is refreshed by {one.refresh}")


def panel_datasource(board: Dashboard) -> Iterator[Fault]:
    """All that is asked is asked of the data source which the variable names."""
    for panel in board.panels:
        if panel.has_queries and panel.datasource not in _DATASOURCES:
            yield Fault(panel.title, f"asks {panel.datasource!r}")
    for variable in board.variables:
        if variable.type == "query" and variable.datasource not in _DATASOURCES:
            yield Fault(f"variable {variable.name}", f"asks {variable.datasource!r}")
    for annotation in board.annotations:
        if annotation.datasource not in _DATASOURCES:
            yield Fault(f"annotation {annotation.name}", f"asks {annotation.datasource!r}")


def mixed_data_sources(board: Dashboard) -> Iterator[Fault]:
    """All queries of a panel have one data source: the panel's."""
    for panel in board.panels:
        if others := {one.datasource for one in panel.targets} - {panel.datasource}:
            yield Fault(panel.title, f"mixes {panel.datasource!r} with {sorted(others)}")


def panel_title_description(board: Dashboard) -> Iterator[Fault]:
    """Every panel that shows data has a title and a description."""
    for panel in board.panels:
        if panel.has_queries and not (panel.title and panel.description):
            yield Fault(panel.title, f"panel {panel.id} lacks a title or a description")


def panel_units(board: Dashboard) -> Iterator[Fault]:
    """Every panel that shows numbers has a unit, and one that Grafana knows."""
    for panel in board.panels:
        units = {*panel.column_units, panel.unit} - {""}
        known = {unit for unit in units if unit in _UNITS or unit.startswith("suffix:")}
        reduced = panel.json.get("options", {}).get("reduceOptions", {})
        shows_numbers = panel.has_queries and not (panel.has_mappings or reduced.get("fields"))
        if units != known or (shows_numbers and not units):
            yield Fault(panel.title, f"has the units {sorted(units)}")


def panel_no_targets(board: Dashboard) -> Iterator[Fault]:
    """Every panel that shows data asks for some."""
    for panel in board.panels:
        if panel.has_queries and not [one for one in panel.targets if one.expr]:
            yield Fault(panel.title, "has no query")


def target_rate_interval(board: Dashboard) -> Iterator[Fault]:
    """Rates are taken over ``$__rate_interval``; an increase also over the whole time range."""
    for panel in board.panels:
        for target in panel.targets:
            for selector in selectors(target.expr):
                if not _fits(selector):
                    asked = f"{selector.functions[:1]} of {selector.name}[{selector.range}]"
                    yield Fault(panel.title, f"{target.ref_id}: {asked}")


def _fits(selector: Selector) -> bool:
    over = selector.range.strip("${}")
    match selector.functions[:1]:
        case ("rate" | "irate",):
            return over == "__rate_interval"
        case ("increase",):
            return over in {"__rate_interval", "__range"}
    return True


def target_counter_agg(board: Dashboard) -> Iterator[Fault]:
    """A counter is shown by its rate or increase: its value begins anew with its process."""
    for panel in board.panels:
        for target in panel.targets:
            for selector in selectors(target.expr):
                counted = selector.range and _COUNTING.intersection(selector.functions[:1])
                if selector.name.endswith("_total") and not counted:
                    yield Fault(panel.title, f"{target.ref_id}: {selector.name} without a rate")


def uneditable(board: Dashboard) -> Iterator[Fault]:
    """It cannot be edited in the browser: it is generated."""
    if board.editable:
        yield Fault("dashboard", "is editable")


RULES: tuple[Rule, ...] = (
    template_datasource,
    template_label_promql,
    template_on_time_change_reload,
    panel_datasource,
    mixed_data_sources,
    panel_title_description,
    panel_units,
    panel_no_targets,
    target_rate_interval,
    target_counter_agg,
    uneditable,
)
