"""Tables: a row for each run, worker or rank, with columns from several queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from grafana_foundation_sdk.models import common, table
from grafana_foundation_sdk.models.dashboard import Panel, ThresholdsConfig, ValueMapping

from grafana.links import DataLink
from grafana.panels import Look, panel
from grafana.queries import Query
from grafana.thresholds import missing
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
    links: Sequence[DataLink] = ()
    hidden: bool = False
    """Whether it is only there for links."""

    def properties(self) -> dict[str, object]:
        """List the column's properties by Grafana's names."""
        coloured = self.colours or self.mappings
        found: dict[str, object] = {
            "noValue": "-",
            "unit": self.unit,
            "decimals": self.decimals,
            "custom.width": self.width,
            "mappings": [*self.mappings, missing("-")] if coloured else [],
            "thresholds": self.colours,
            "links": list(self.links),
            "custom.hidden": self.hidden or None,
            # Its sign in the heading takes room: figures are sorted, words are searched.
            "custom.filterable": not self.unit or None,
            "custom.cellOptions": {"type": "color-text"} if coloured else None,
        }
        return {key: value for key, value in found.items() if value not in ("", None, [])}


def rows(
    title: str,
    description: str,
    *queries: Query,
    columns: Sequence[Column],
    sort_by: str,
    descending: bool = False,
    then_by: str | None = None,
    **look: Unpack[Look],
) -> Panel:
    """Draw a table. Rows of different queries are merged if their common labels agree.

    ``sort_by`` and, where that is the same, ``then_by`` are titles of columns.
    """
    refs = [query.ref for query in queries]
    sources = [one.source for one in columns]
    fields = {source: f"Value #{source}" if source in refs else source for source in sources}
    unused = [f"Value #{ref}" for ref in refs if ref not in fields]
    titles = {one.source: one.title or one.source for one in columns}
    look = Look(width=24, height=9, unit="short") | look
    look["overrides"] = {titles[one.source]: one.properties() for one in columns}
    look["transformations"] = [
        step("merge"),
        step(
            "organize",
            excludeByName=dict.fromkeys(("Time", "Value", *unused), True),
            indexByName={name: at for at, name in enumerate(fields.values())},
            renameByName={fields[at]: titles[at] for at in fields if titles[at] != fields[at]},
        ),
    ]
    options = table.Options(
        show_header=True,
        cell_height=common.TableCellHeight.SM,
        sort_by=[
            common.TableSortByFieldState(display_name=title, desc=is_descending)
            for title, is_descending in ((sort_by, descending), (then_by, False))
            if title
        ],
        footer=common.TableFooterOptions(show=False, reducer=["sum"]),
    )
    cells = common.TableFieldOptions(
        align=common.FieldTextAlignment.AUTO,
        cell_options=common.TableAutoCellOptions(),
    )
    return panel("table", title, description, queries, options, look, custom=cells)
