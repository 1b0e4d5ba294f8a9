"""Tables: a row for each run, worker or rank, with columns from several queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Unpack

from grafana_foundation_sdk.models import common, table
from grafana_foundation_sdk.models.dashboard import Panel, ThresholdsConfig, ValueMapping

from grafana.links import DataLink
from grafana.panels import Look, panel
from grafana.queries import PanelQuery, by, column
from grafana.thresholds import BARS, STILL_RUNNING, missing
from grafana.transformations import organized, step

_BAR: Final = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}


@dataclass(frozen=True)
class PanelColumn:
    """A column of a table."""

    source: str
    """Content: the ``ref`` of a query, or the name of a label."""
    title: str = ""
    unit: str = ""
    decimals: int | None = None
    width: int | None = None
    colours: ThresholdsConfig | None = None
    mappings: Sequence[ValueMapping] = ()
    links: Sequence[DataLink] = ()
    hidden: bool = False
    """Whether it is hidden because only links use it."""
    bar: bool = False
    """Whether each value has a bar of proportional length."""
    maximum: float | None = None
    """Value of a full bar; by default the largest one."""

    def properties(self) -> dict[str, object]:
        """Return the column's properties by Grafana's names."""
        coloured = self.colours or self.mappings
        fields: dict[str, object] = {
            "noValue": "-",
            "unit": self.unit,
            "decimals": self.decimals,
            "custom.width": self.width,
            "mappings": [*self.mappings, missing("-")] if coloured else [],
            "thresholds": self.colours,
            "links": list(self.links),
            "custom.hidden": self.hidden or None,
            # The filter icon takes space in the heading, so only text columns have it.
            "custom.filterable": not self.unit or None,
            "custom.cellOptions": {"type": "color-text"} if coloured else None,
        }
        if self.bar:
            fields |= {"custom.cellOptions": _BAR, "min": 0, "max": self.maximum}
            fields["thresholds"] = self.colours or BARS
            fields["custom.minWidth"] = 90
        return {key: value for key, value in fields.items() if value not in ("", None, [])}


share = partial(PanelColumn, unit="percentunit", decimals=0)

# Columns of a row that links to its run need.
RANGE_OF_RUN: Final = (
    PanelColumn("run_id", hidden=True),
    PanelColumn("from", unit="none", decimals=0, hidden=True),
    PanelColumn("to", unit="none", decimals=0, mappings=STILL_RUNNING, hidden=True),
)


def rows(
    title: str,
    description: str,
    *queries: PanelQuery,
    columns: Sequence[PanelColumn],
    sort_by: str,
    descending: bool = False,
    then_by: str | None = None,
    headings: bool = True,
    **look: Unpack[Look],
) -> Panel:
    """Return a table. Rows of different queries are merged if their common labels agree.

    ``sort_by`` and, for equal values, ``then_by`` are titles of columns.
    """
    refs = [query.ref for query in queries]
    sources = [column.source for column in columns]
    # Grafana calls the values of a single query just "Value".
    values = {ref: f"Value #{ref}" if len(refs) > 1 else "Value" for ref in refs}
    fields = {source: values.get(source, source) for source in sources}
    unused = [name for ref, name in values.items() if ref not in fields]
    titles = {column.source: column.title or column.source for column in columns}
    renamed = {fields[at]: titles[at] for at in fields if titles[at] != fields[at]}
    look = Look(width=24, height=9, unit="short") | look
    look["overrides"] = {titles[column.source]: column.properties() for column in columns}
    look["transformations"] = [
        step("merge"),
        organized(fields.values(), renamed, without=("Time", *unused)),
    ]
    options = table.Options(
        show_header=headings,
        sort_by=[
            common.TableSortByFieldState(display_name=title, desc=is_descending)
            for title, is_descending in ((sort_by, descending), (then_by, False))
            if title
        ],
        footer=common.TableFooterOptions(show=False, reducer=["sum"]),
    )
    cells = common.TableFieldOptions(cell_options=common.TableAutoCellOptions())
    return panel("table", title, description, queries, options, look, custom=cells)


def ranking(
    title: str,
    description: str,
    expr: str,
    *,
    name: str,
    name_width: int = 210,
    most_first: bool = False,
    **look: Unpack[Look],
) -> Panel:
    """Return a table with a bar for each value of the label ``name``.

    A table stays readable with many rows, and says if there are none.
    """
    unit, decimals = look.pop("unit"), look.pop("decimals", None)
    look = Look(width=10, height=8) | look
    return rows(
        title,
        description,
        column("value", by(name, expr)),
        columns=(
            PanelColumn(name, width=name_width),
            PanelColumn("value", "", unit, decimals, bar=True),
        ),
        sort_by="value",
        descending=most_first,
        headings=False,
        **look,
    )
