"""Tables: a row for each run, worker or rank, with columns from several queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Unpack

from grafana_foundation_sdk.models import common, table
from grafana_foundation_sdk.models.dashboard import Panel, ThresholdsConfig, ValueMapping

from grafana.links import DataLink
from grafana.panels import Look, panel
from grafana.queries import Query
from grafana.transformations import step


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    source: str
    """What it shows: the value of the query with this ``ref``, or else a label."""
    title: str = ""
    unit: str = ""
    decimals: int | None = None
    width: int | None = None
    colours: ThresholdsConfig | None = None
    mappings: Sequence[ValueMapping] = ()
    links: Sequence[DataLink] = field(default_factory=tuple)
    gauge: float | None = None
    """Draw a bar in the cell, full at this value."""
    hidden: bool = False
    """Whether it is only there for links."""

    def properties(self) -> dict[str, object]:
        """Return the column's properties, as Grafana names them."""
        found: dict[str, object] = {"noValue": "-"}
        if self.unit:
            found["unit"] = self.unit
        if self.decimals is not None:
            found["decimals"] = self.decimals
        if self.width is not None:
            found["custom.width"] = self.width
        if self.mappings:
            found["mappings"] = list(self.mappings)
        if self.colours:
            found["thresholds"] = self.colours
        if self.links:
            found["links"] = list(self.links)
        if self.hidden:
            found["custom.hidden"] = True
        if self.gauge is not None:
            found |= {"min": 0, "max": self.gauge}
            found["custom.cellOptions"] = {"type": "gauge", "mode": "basic"}
        elif self.colours or self.mappings:
            found["custom.cellOptions"] = {"type": "color-text"}
        return found


def rows(
    title: str,
    description: str,
    *queries: Query,
    columns: Sequence[Column],
    sort_by: str,
    descending: bool = False,
    **look: Unpack[Look],
) -> Panel:
    """Return a table. Rows of different queries are merged if their common labels agree."""
    refs = [query.ref for query in queries]
    source_to_field = {
        column.source: f"Value #{column.source}" if column.source in refs else column.source
        for column in columns
    }
    unused = [f"Value #{ref}" for ref in refs if ref not in source_to_field]
    titles = {column.source: column.title or column.source for column in columns}
    look = Look(width=24, height=9, unit="short") | look
    look["overrides"] = {titles[column.source]: column.properties() for column in columns}
    look["transformations"] = [
        step("merge"),
        step(
            "organize",
            excludeByName=dict.fromkeys(("Time", "Value", *unused), True),
            indexByName={name: at for at, name in enumerate(source_to_field.values())},
            renameByName={
                name: titles[source]
                for source, name in source_to_field.items()
                if titles[source] != name
            },
        ),
    ]
    options = table.Options(
        show_header=True,
        cell_height=common.TableCellHeight.SM,
        sort_by=[common.TableSortByFieldState(display_name=sort_by, desc=descending)],
        footer=common.TableFooterOptions(show=False, reducer=["sum"]),
    )
    cells = common.TableFieldOptions(
        align=common.FieldTextAlignment.AUTO,
        cell_options=common.TableAutoCellOptions(),
        filterable=True,
    )
    return panel("table", title, description, queries, options, look, custom=cells)
