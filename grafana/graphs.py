"""Panels of newest values, and of values or states over time or over another quantity."""

from collections.abc import Sequence
from itertools import cycle
from typing import Unpack

from grafana_foundation_sdk.models import (
    barchart,
    common,
    heatmap,
    stat,
    statetimeline,
    timeseries,
    trend,
)
from grafana_foundation_sdk.models.dashboard import Panel, ThresholdsConfig

from grafana.links import DataLink
from grafana.panels import BY_ORDER, BY_THRESHOLD, LEGEND, NO_DATA, TOOLTIP, Look, fixed, panel
from grafana.queries import PanelQuery
from grafana.thresholds import PLAIN, missing
from mlbench.contract import palette


def figure(
    title: str,
    description: str,
    *queries: PanelQuery,
    show: common.BigValueTextMode = common.BigValueTextMode.AUTO,
    field: str = "",
    size: int | None = None,
    links: Sequence[DataLink] = (),
    **look: Unpack[Look],
) -> Panel:
    """Show the newest value as a large figure.

    ``field``: a text column to show instead, such as ``/^state$/``. ``size``: font size of several
    values below each other.
    """
    # A graph shows its newest number. An instant value may be NaN, which must not be skipped.
    is_instant = all(query.instant for query in queries)
    options = stat.Options(
        graph_mode=common.BigValueGraphMode.NONE,
        color_mode=common.BigValueColorMode.VALUE,
        text_mode=show,
        reduce_options=_last(field, "last" if is_instant else "lastNotNull"),
        orientation=common.VizOrientation.HORIZONTAL if size else common.VizOrientation.AUTO,
        text=common.VizTextDisplayOptions(title_size=14, value_size=size) if size else None,
    )
    look = _grey_if_missing(Look(width=4, height=4, colours=PLAIN) | look)
    if links:
        look["overrides"] = dict(look.get("overrides", {})) | {"/.*/": {"links": list(links)}}
    return panel("stat", title, description, queries, options, look, color=BY_THRESHOLD)


def _grey_if_missing(look: Look) -> Look:
    """Show a grey text for missing values."""
    mappings = [*look.get("mappings", ()), missing(look.get("no_value", NO_DATA))]
    return look | Look(mappings=mappings)


def _last(field: str, calculation: str) -> common.ReduceDataOptions:
    return common.ReduceDataOptions(values=False, calcs=[calculation], fields=field)


def lines(
    title: str,
    description: str,
    *queries: PanelQuery,
    least: float | None = 0,
    stacked: bool = False,
    limits: ThresholdsConfig | None = None,
    **look: Unpack[Look],
) -> Panel:
    """Draw values over time.

    ``least``: lowest end of the scale; ``stacked``: draw series on top of each other; ``limits``:
    dashed lines.
    """
    curve = _curve(fill_opacity=60 if stacked else 0, soft_min=least)
    legends = [query.legend for query in queries if "{{" not in query.legend]
    overrides = dict(look.get("overrides", {}))
    for name, colour in zip(legends, cycle(palette.SERIES), strict=False):
        overrides[name] = fixed(colour) | dict(overrides.get(name, {}))
    look["overrides"] = overrides
    if stacked:
        curve.stacking = common.StackingConfig(mode=common.StackingMode.NORMAL)
    if limits:
        look["colours"] = limits
        dashed = common.GraphThresholdsStyleMode.DASHED
        curve.thresholds_style = common.GraphThresholdsStyleConfig(mode=dashed)
    return panel(
        "timeseries",
        title,
        description,
        queries,
        timeseries.Options(legend=LEGEND, tooltip=TOOLTIP),
        look,
        color=BY_ORDER,
        least=0 if stacked else None,
        custom=curve,
    )


def against(
    title: str,
    description: str,
    *queries: PanelQuery,
    x: str,
    x_unit: str,
    points: common.VisibilityMode = common.VisibilityMode.NEVER,
    **look: Unpack[Look],
) -> Panel:
    """Draw curves over the column ``x``, whose values ascend, instead of over time."""
    curve = _curve(points=points)
    curve.span_nulls = True
    look["overrides"] = {x: {"unit": x_unit, "custom.axisLabel": x}} | dict(
        look.get("overrides", {})
    )
    options = trend.Options(legend=LEGEND, tooltip=TOOLTIP, x_field=x)
    return panel("trend", title, description, queries, options, look, color=BY_ORDER, custom=curve)


def _curve(
    *,
    fill_opacity: float = 0,
    points: common.VisibilityMode = common.VisibilityMode.AUTO,
    soft_min: float | None = None,
) -> common.GraphFieldConfig:
    return common.GraphFieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=fill_opacity,
        show_points=points,
        point_size=4,
        span_nulls=False,
        axis_soft_min=soft_min,
    )


def stacked_bars(
    title: str, description: str, *queries: PanelQuery, x: str, **look: Unpack[Look]
) -> Panel:
    """Draw a stacked bar for each row of a table; the column ``x`` names the bars."""
    options = barchart.Options(
        x_field=x,
        orientation=common.VizOrientation.HORIZONTAL,
        stacking=common.StackingMode.NORMAL,
        show_value=common.VisibilityMode.NEVER,
        legend=LEGEND,
        tooltip=TOOLTIP,
        bar_width=0.8,
        x_tick_label_max_length=40,
    )
    return panel(
        "barchart",
        title,
        description,
        queries,
        options,
        Look(width=12, height=9) | look,
        color=BY_ORDER,
        least=0,
        custom=barchart.FieldConfig(line_width=0, fill_opacity=85),
    )


def timeline(title: str, description: str, *queries: PanelQuery, **look: Unpack[Look]) -> Panel:
    """Draw a strip for each series, coloured by its state over time."""
    options = statetimeline.Options(
        show_value=common.VisibilityMode.AUTO, row_height=0.85, merge_values=True
    )
    return panel(
        "state-timeline",
        title,
        description,
        queries,
        options,
        Look(width=24, unit="short", mappings=(), data_points=200) | look,
        color=BY_ORDER,
        custom=statetimeline.FieldConfig(line_width=0, fill_opacity=75),
    )


def heat_map(title: str, description: str, *queries: PanelQuery, **look: Unpack[Look]) -> Panel:
    """Draw a row for each series, from the bottom up; higher values are darker."""
    unit = look.get("unit")
    options = heatmap.Options(
        calculate=False,
        color=heatmap.HeatmapColorOptions(
            mode=heatmap.HeatmapColorMode.SCHEME, scheme="Oranges", exponent=0.5, steps=64
        ),
        cell_gap=0,
        cell_values=heatmap.CellValues(unit=unit),
        rows_frame=heatmap.RowsHeatmapOptions(layout=common.HeatmapCellLayout.AUTO),
        show_value=common.VisibilityMode.NEVER,
        tooltip=heatmap.HeatmapTooltip(
            mode=common.TooltipDisplayMode.SINGLE, show_color_scale=True
        ),
    )
    look = Look(width=24, height=12, data_points=150) | look
    custom = heatmap.FieldConfig()
    return panel("heatmap", title, description, queries, options, look, custom=custom)
