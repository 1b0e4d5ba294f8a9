"""The columns of tables: those that a panel speaks of, and those that its queries give it."""

import re
from collections.abc import Iterable

from tests.grafana.dashboards import Json, texts

_IN_LINK = re.compile(r"__data\.fields\.(\w+)")


def unknown_columns(panel: Json, labels: Iterable[str]) -> set[str]:
    """Return the columns that a panel speaks of and does not have.

    Args:
        panel: one whose answers are tables, with the labels as columns.
        labels: of the series that its queries find.
    """
    values = {f"Value #{one['refId']}" for one in panel["targets"]}
    known = {"Time", "Value", *values, *labels}
    mentioned = {name for _, text in texts(panel) for name in _IN_LINK.findall(text)}
    for step in panel["transformations"]:
        made, used = _columns_of(step["id"], step["options"])
        known |= made
        mentioned |= used
    if not any(step["id"] == "groupingToMatrix" for step in panel["transformations"]):
        # A matrix has a column for each value of a label.
        mentioned |= {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        mentioned |= {one["displayName"] for one in panel["options"].get("sortBy", ())}
    return mentioned - known


def _columns_of(kind: str, options: Json) -> tuple[set[str], set[str]]:
    """Return the columns that a transformation makes, and those that it needs."""
    made: Iterable[str] = ()
    used: Iterable[str] = ()
    match kind:
        case "organize":
            # It may also leave out or order columns, which only some machines have.
            made, used = options["renameByName"].values(), options["renameByName"]
        case "groupBy":
            fields = options["fields"]
            made = [f"{name} ({how})" for name in fields for how in fields[name]["aggregations"]]
            used = fields
        case "groupingToMatrix":
            row, column = options["rowField"], options["columnField"]
            # Grafana's versions differ in what they call the first column.
            made, used = (row, f"{row}\\{column}"), (row, column, options["valueField"])
        case "calculateField":
            made = (options["alias"],)
            used = (options["binary"]["left"], options["binary"]["right"])
        case "joinByField":
            used = (options["byField"],)
        case "sortBy":
            used = [one["field"] for one in options["sort"]]
        case "convertFieldType":
            used = [one["targetField"] for one in options["conversions"]]
        case "filterByValue":
            used = [one["fieldName"] for one in options["filters"]]
    return set(made), set(used)
