"""The columns of tables: those that a panel speaks of, and those that its queries give it."""

import re
from collections.abc import Iterable

from tests.grafana.dashboards import Json, Panel
from tests.grafana.references import texts

_IN_LINK = re.compile(r"__data\.fields(?:\[[\"']([^\"']+)[\"']\]|\.(\w+))")
_NUMBER = re.compile(r"-?[\d.]*")
_ALWAYS = frozenset({"Time", "Value"})


def is_table(panel: Panel) -> bool:
    """Return whether the panel's answers are tables, whose columns are the labels."""
    return bool(panel.targets) and all(one.format == "table" for one in panel.targets)


def unknown_columns(panel: Panel, labels: Iterable[str]) -> set[str]:
    """Return the columns that a panel speaks of and does not have.

    Args:
        panel: one of which ``is_table`` says so.
        labels: of the series that its queries find.
    """
    values = {f"Value #{one.ref_id}" for one in panel.targets}
    known = _ALWAYS | values | set(labels)
    mentioned = {a or b for _, text in texts(panel.json) for a, b in _IN_LINK.findall(text)}
    for step in panel.transformations:
        known |= _made(step["id"], step["options"])
        mentioned |= _used(step["id"], step["options"])
    if not any(step["id"] == "groupingToMatrix" for step in panel.transformations):
        # A matrix has a column for each value of a label.
        mentioned |= _styled(panel)
    return mentioned - known


def _styled(panel: Panel) -> set[str]:
    """Return the columns that look different, or that the rows are ordered by."""
    overrides = panel.json.get("fieldConfig", {}).get("overrides", ())
    matchers = [one["matcher"] for one in overrides]
    orders = panel.json.get("options", {}).get("sortBy") or ()
    return {one["options"] for one in matchers if one["id"] == "byName"} | {
        one["displayName"] for one in orders
    }


def _made(kind: str, options: Json) -> set[str]:
    """Return the columns that a transformation makes."""
    match kind:
        case "organize":
            return set(options["renameByName"].values())
        case "groupBy":
            return {
                f"{name} ({aggregation})"
                for name, field in options["fields"].items()
                for aggregation in field["aggregations"]
            }
        case "groupingToMatrix":
            # Grafana's versions differ in what they call the first column.
            return {options["rowField"], f"{options['rowField']}\\{options['columnField']}"}
        case "calculateField":
            return {options["alias"]}
    return set()


def _used(kind: str, options: Json) -> set[str]:
    """Return the columns that a transformation needs."""
    found: Iterable[str] = ()
    match kind:
        case "organize":
            # It may also leave out or order columns, which only some machines have.
            found = options["renameByName"]
        case "groupBy":
            found = options["fields"]
        case "groupingToMatrix":
            found = (options["rowField"], options["columnField"], options["valueField"])
        case "calculateField":
            binary = options.get("binary") or {}
            sides = (binary.get("left", ""), binary.get("right", ""))
            found = (one for one in sides if not _NUMBER.fullmatch(one))
        case "joinByField":
            found = (options["byField"],)
        case "sortBy":
            found = (one["field"] for one in options["sort"])
        case "convertFieldType":
            found = (one["targetField"] for one in options["conversions"])
        case "filterFieldsByName":
            found = options.get("include", {}).get("names", ())
    return set(found)
