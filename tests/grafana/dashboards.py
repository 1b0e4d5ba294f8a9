"""A dashboard's JSON as typed, read-only records: what the tests look at."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "grafana" / "dashboards"
# Panels that show no answer of a query.
_WITHOUT_QUERIES = frozenset({"row", "text", "dashlist", "alertlist", "annolist", "news"})

# Grafana itself, which keeps annotations too.
_OWN_STORE = "-- Grafana --"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A query of a panel."""

    ref_id: str
    expr: str
    datasource: str
    """The data source's uid; the panel's where the target names none."""
    instant: bool
    range: bool
    interval: str
    """Least step, such as ``10s``; empty where the data source decides."""
    legend: str
    format: str


@dataclass(frozen=True)
class Grid:
    """Where a panel is, in 24ths of the width and rows of the height."""

    x: int
    y: int
    w: int
    h: int

    def overlaps(self, other: "Grid") -> bool:
        """Return whether some place is in both."""
        return (
            self.x < other.x + other.w
            and other.x < self.x + self.w
            and self.y < other.y + other.h
            and other.y < self.y + self.h
        )


@dataclass(frozen=True)
class Panel:
    """A panel, or the row that heads panels."""

    id: int | None
    type: str
    title: str
    description: str
    datasource: str
    unit: str
    """Of its values; empty where none is set, or only for some columns."""
    column_units: tuple[str, ...]
    has_mappings: bool
    grid: Grid
    targets: tuple[Target, ...]
    repeat: str
    row: str
    """Title of the collapsed row that holds it; empty outside of one."""
    json: Json = field(repr=False)

    @property
    def has_queries(self) -> bool:
        """Whether a panel of this type shows what queries answer."""
        return self.type not in _WITHOUT_QUERIES

    @property
    def transformations(self) -> Sequence[Json]:
        """What is done to the answers, in order."""
        found: Sequence[Json] = self.json.get("transformations", ())
        return found


@dataclass(frozen=True)
class Variable:
    """A variable that the user may set."""

    name: str
    type: str
    label: str
    query: str
    datasource: str
    refresh: int
    regex: str
    multi: bool
    include_all: bool
    all_value: str
    current: tuple[str, ...]
    """The values that the file itself sets."""
    json: Json = field(repr=False)


@dataclass(frozen=True)
class Annotation:
    """A query whose answers are marked on the time axis."""

    name: str
    expr: str
    datasource: str
    step: str
    """How often it is looked for, such as ``2s``."""


@dataclass(frozen=True)
class Dashboard:
    """A dashboard and all of its panels, also those in collapsed rows."""

    file_name: str
    """Without the suffix."""
    uid: str
    title: str
    editable: bool
    tags: tuple[str, ...]
    panels: tuple[Panel, ...] = field(repr=False)
    variables: tuple[Variable, ...] = field(repr=False)
    annotations: tuple[Annotation, ...] = field(repr=False)
    json: Json = field(repr=False)

    def variable(self, name: str) -> Variable | None:
        """Return the variable of a name, if it is declared."""
        return next((one for one in self.variables if one.name == name), None)


def load_all() -> tuple[Dashboard, ...]:
    """Return every dashboard of the project, by file name."""
    return tuple(
        read(path.stem, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(FOLDER.glob("*.json"))
    )


def read(file_name: str, board: Json) -> Dashboard:
    """Return the records of a dashboard's JSON."""
    return Dashboard(
        file_name=file_name,
        uid=board.get("uid", ""),
        title=board.get("title", ""),
        editable=board.get("editable", True),
        tags=tuple(board.get("tags", ())),
        panels=tuple(_panels(board.get("panels", ()), row="")),
        variables=tuple(_variable(one) for one in board.get("templating", {}).get("list", ())),
        annotations=tuple(
            _annotation(one)
            for one in board.get("annotations", {}).get("list", ())
            if _uid(one) != _OWN_STORE
        ),
        json=board,
    )


def _panels(found: Sequence[Json], row: str) -> Iterator[Panel]:
    for one in found:
        yield _panel(one, row)
        yield from _panels(one.get("panels", ()), one.get("title", ""))


def _panel(panel: Json, row: str) -> Panel:
    config = panel.get("fieldConfig", {})
    defaults = config.get("defaults", {})
    properties = [each for one in config.get("overrides", ()) for each in one["properties"]]
    datasource = _uid(panel)
    place = panel.get("gridPos", {})
    return Panel(
        id=panel.get("id"),
        type=panel["type"],
        title=panel.get("title", ""),
        description=panel.get("description", ""),
        datasource=datasource,
        unit=defaults.get("unit", ""),
        column_units=tuple(each["value"] for each in properties if each["id"] == "unit"),
        has_mappings=bool(defaults.get("mappings"))
        or any(each["id"] == "mappings" for each in properties),
        grid=Grid(*(place.get(side, 0) for side in "xywh")),
        targets=tuple(_target(one, datasource) for one in panel.get("targets", ())),
        repeat=panel.get("repeat", ""),
        row=row,
        json=panel,
    )


def _target(target: Json, panel_datasource: str) -> Target:
    instant = target.get("instant", False)
    return Target(
        ref_id=target.get("refId", ""),
        expr=target.get("expr", ""),
        datasource=_uid(target) or panel_datasource,
        instant=instant,
        # Grafana asks for a range unless it is told otherwise.
        range=target.get("range", not instant),
        interval=target.get("interval", ""),
        legend=target.get("legendFormat", ""),
        format=target.get("format", "time_series"),
    )


def _variable(variable: Json) -> Variable:
    query = variable.get("query", "")
    current = (variable.get("current") or {}).get("value", ())
    chosen = (current,) if isinstance(current, str) else current
    return Variable(
        name=variable["name"],
        type=variable["type"],
        label=variable.get("label") or "",
        query=query if isinstance(query, str) else query.get("query", ""),
        datasource=_uid(variable),
        refresh=variable.get("refresh", 0),
        regex=variable.get("regex", ""),
        multi=variable.get("multi", False),
        include_all=variable.get("includeAll", False),
        all_value=variable.get("allValue") or "",
        current=tuple(one for one in chosen if one),
        json=variable,
    )


def _annotation(annotation: Json) -> Annotation:
    expr = annotation.get("expr") or annotation.get("target", {}).get("expr", "")
    # Grafana 12 reads the interval of the query, those before it the step; without, once a minute.
    step, interval = annotation.get("step"), annotation.get("target", {}).get("interval")
    looks = step if step and step == interval else "60s"
    return Annotation(annotation.get("name", ""), expr, _uid(annotation), looks)


def _uid(owner: Json) -> str:
    source = owner.get("datasource") or {}
    uid: str = source if isinstance(source, str) else source.get("uid", "")
    return uid
