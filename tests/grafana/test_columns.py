"""A table that speaks of columns which it does not have is found out."""

import pytest

from tests.grafana.columns import is_table, unknown_columns
from tests.grafana.dashboards import Panel
from tests.grafana.example import Edit, edited, inner_panel

LABELS = ("run_id", "metric", "rank")


def table(edit: Edit) -> Panel:
    """Return the example's table after a change."""
    return edited(edit).panels[2]


def organize(**renamed: str) -> dict[str, object]:
    return {"id": "organize", "options": {"renameByName": renamed}}


def linked(to: str) -> Edit:
    """Return a change that gives the table's values a link."""
    links = [{"title": "", "url": f"/d/example?var-run={to}"}]
    return inner_panel(fieldConfig={"defaults": {"links": links}, "overrides": []})


SORTED = {"id": "sortBy", "options": {"sort": [{"field": "loss"}]}}
MATRIX = {
    "id": "groupingToMatrix",
    "options": {"rowField": "rank", "columnField": "metric", "valueField": "Value #A"},
}


def test_the_example_has_its_columns() -> None:
    panel = table(inner_panel(options={"sortBy": [{"displayName": "Loss"}]}))
    assert is_table(panel)
    assert unknown_columns(panel, LABELS) == set()


@pytest.mark.parametrize(
    ("edit", "unknown"),
    [
        (inner_panel(transformations=[]), {"Loss"}),
        (inner_panel(options={"sortBy": [{"displayName": "loss"}]}), {"loss"}),
        (inner_panel(transformations=[organize(node="Node", rank="Loss")]), {"node"}),
        (linked("${__data.fields.run}"), {"run"}),
        (linked('${__data.fields["Run"]}'), {"Run"}),
        (inner_panel(transformations=[SORTED]), {"Loss", "loss"}),
        (inner_panel(transformations=[MATRIX, organize(**{"rank": "x", "other": "x"})]), {"other"}),
    ],
)
def test_unknown_columns(edit: Edit, unknown: set[str]) -> None:
    assert unknown_columns(table(edit), LABELS) == unknown
