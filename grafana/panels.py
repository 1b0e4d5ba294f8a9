"""Common parts of all kinds of panels: size, queries, units, colours and overrides."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Final, TypedDict

from grafana_foundation_sdk.models import common, text
from grafana_foundation_sdk.models.dashboard import (
    DashboardFieldConfigSourceOverrides,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColor,
    FieldColorModeId,
    FieldConfig,
    FieldConfigSource,
    GridPos,
    MatcherConfig,
    Panel,
    ThresholdsConfig,
    ValueMapping,
)

from grafana.queries import DATASOURCE, PanelQuery
from grafana.thresholds import PLAIN
from mlbench.contract import palette

# Options of Grafana 10.0, which later versions migrate by this number.
_PLUGIN_VERSION: Final = "10.0.0"

Overrides = Mapping[str, Mapping[str, object]]
"""Properties of single series or columns, by name or ``/pattern/``."""

TOOLTIP: Final = common.VizTooltipOptions(
    mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING
)
LEGEND: Final = common.VizLegendOptions(show_legend=True)
# By order, because colours by name are often similar.
BY_ORDER: Final = FieldColor(mode=FieldColorModeId.PALETTE_CLASSIC)
BY_THRESHOLD: Final = FieldColor(mode=FieldColorModeId.THRESHOLDS)
NO_DATA: Final = "No data in this time range"


class Look(TypedDict, total=False):
    """Keywords that every kind of panel accepts, in addition to its own."""

    width: int
    """Width in columns, of which a board has 24; 8 by default."""
    height: int
    unit: str
    """Unit in Grafana's notation; a plain number by default."""
    decimals: int | None
    maximum: float | None
    """Maximum of the scale."""
    colours: ThresholdsConfig
    mappings: Sequence[ValueMapping]
    data_points: int
    """Maximum number of points of each series; the width of the panel by default."""
    repeat: str
    """Variable that repeats the panel for each of its values, four in a line."""
    no_value: str
    """Text for missing data."""
    overrides: Overrides
    transformations: Sequence[DataTransformerConfig]


def panel(
    kind: str,
    title: str,
    description: str,
    queries: Sequence[PanelQuery],
    options: object,
    look: Look,
    *,
    color: FieldColor | None = None,
    least: float | None = None,
    custom: object = None,
) -> Panel:
    """Return a panel of a ``kind`` of Grafana, with the options of that kind.

    The title must be unique on its board. ``least`` is the minimum of the scale, ``custom`` are
    the field options of the kind.
    """
    return Panel(
        type_val=kind,
        title=title,
        description=description,
        datasource=DATASOURCE,
        targets=[
            query.target(letter) for query, letter in zip(queries, ascii_uppercase, strict=False)
        ],
        grid_pos=GridPos(w=look.get("width", 8), h=look.get("height", 8)),
        options=options,
        field_config=FieldConfigSource(
            defaults=FieldConfig(
                unit=look.get("unit", "none"),
                decimals=look.get("decimals"),
                min_val=least,
                max_val=look.get("maximum"),
                color=color,
                thresholds=look.get("colours", PLAIN),
                mappings=list(look["mappings"]) if "mappings" in look else None,
                no_value=look.get("no_value", NO_DATA),
                custom=custom,
            ),
            overrides=[
                DashboardFieldConfigSourceOverrides(
                    matcher=MatcherConfig(
                        id_val="byRegexp" if name.startswith("/") else "byName", options=name
                    ),
                    properties=[
                        DynamicConfigValue(id_val=key, value=value)
                        for key, value in properties.items()
                    ],
                )
                for name, properties in look.get("overrides", {}).items()
            ],
        ),
        transformations=list(look.get("transformations", ())),
        plugin_version=_PLUGIN_VERSION,
        max_data_points=look.get("data_points"),
        repeat=look.get("repeat"),
        repeat_direction="h" if "repeat" in look else None,
        max_per_row=4 if "repeat" in look else None,
    )


def fixed(colour: str) -> dict[str, object]:
    """Return the property of a fixed colour."""
    return {"color": FieldColor(mode=FieldColorModeId.FIXED, fixed_color=colour)}


# Colours of series that are named after phases.
PHASE_COLOURS: Final[Overrides] = {
    **{phase: fixed(colour) for phase, colour in palette.PHASE.items()},
    "other": fixed("#c3c9d1"),
}


def _by_number(pattern: str) -> Overrides:
    """Return colours by the last digit of a number, dashed if its tens are odd.

    ``pattern`` matches names of series; its ``{0}`` is where the last digits are.
    """
    colours = {
        pattern.format(f"\\d*{digit}"): fixed(colour)
        for digit, colour in enumerate(palette.BY_LAST_DIGIT)
    }
    dashes = {"custom.lineStyle": common.LineStyle(fill="dash", dash=[6, 3])}
    return {**colours, pattern.format("\\d*[13579]\\d"): dashes}


# A rank, run or worker has the same look in all panels, and neighbours differ.
RANK_COLOURS: Final = _by_number("/^rank {0}\\b/")
RUN_COLOURS: Final = _by_number("/^(run )?{0}( |:|$)/")
WORKER_COLOURS: Final = _by_number("/^[a-z].*?{0}$/")


def dashed(colour: str) -> dict[str, object]:
    """Return the properties of a reference line, such as the target."""
    return fixed(colour) | {
        "custom.lineStyle": common.LineStyle(fill="dash", dash=[10, 10]),
        "custom.fillOpacity": 0,
        "custom.lineWidth": 1,
        "custom.showPoints": common.VisibilityMode.NEVER,
    }


# Colours of learning curves.
CURVE_COLOURS: Final[Overrides] = {
    "training": fixed(palette.TRAINING),
    "validation": fixed(palette.VALIDATION),
    "target": dashed(palette.TARGET),
}


def band(lowest: str, highest: str) -> dict[str, dict[str, object]]:
    """Fill the space between two series in grey, without entries in the legend."""
    edge: dict[str, object] = {
        "custom.lineWidth": 0,
        "custom.showPoints": "never",
        "custom.hideFrom": common.HideSeriesConfig(legend=True),
    } | fixed(palette.GREY)
    return {
        lowest: edge | {"custom.fillOpacity": 0},
        highest: edge | {"custom.fillBelowTo": lowest, "custom.fillOpacity": 20},
    }


def markdown(title: str, description: str, content: str, *, width: int, height: int) -> Panel:
    """Return a panel with Markdown text, in which Grafana replaces variables."""
    return Panel(
        type_val="text",
        title=title,
        description=description,
        datasource=DATASOURCE,
        targets=[],
        grid_pos=GridPos(w=width, h=height),
        options=text.Options(mode=text.TextMode.MARKDOWN, content=content),
        field_config=FieldConfigSource(),
        transformations=[],
        plugin_version=_PLUGIN_VERSION,
    )
