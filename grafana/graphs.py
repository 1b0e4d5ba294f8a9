"""Graphs: values over time, over something else than time, and states over time."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import (
    barchart,
    common,
    heatmap,
    statetimeline,
    timeseries,
    trend,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    FieldConfig,
    Panel,
    ThresholdsConfig,
    ValueMapping,
)

from grafana.panels import BY_NAME, NO_DATA, TOOLTIP, Overrides, legend, panel
from grafana.queries import Query
from grafana.thresholds import GOOD


def _curve(
    *,
    stacked: bool = False,
    points: common.VisibilityMode = common.VisibilityMode.AUTO,
    soft_min: float | None = None,
    mark_thresholds: bool = False,
) -> common.GraphFieldConfig:
    return common.GraphFieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=60 if stacked else 8,
        show_points=points,
        point_size=4,
        span_nulls=False,
        stacking=common.StackingConfig(mode=common.StackingMode.NORMAL) if stacked else None,
        axis_soft_min=soft_min,
        thresholds_style=common.GraphThresholdsStyleConfig(
            mode=common.GraphThresholdsStyleMode.DASHED
        )
        if mark_thresholds
        else None,
    )


def lines(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    width: int = 8,
    height: int = 8,
    decimals: int | None = None,
    most: float | None = None,
    least: float | None = 0,
    table: bool = False,
    stacked: bool = False,
    limits: ThresholdsConfig | None = None,
    overrides: Overrides | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Return series over time. ``limits`` are drawn as dashed lines; ``table`` is for many."""
    return panel(
        "timeseries",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=timeseries.Options(legend=legend(table=table), tooltip=TOOLTIP),
        defaults=FieldConfig(
            unit=unit,
            decimals=decimals,
            min_val=0 if stacked else None,
            max_val=most,
            color=BY_NAME,
            thresholds=limits or GOOD,
            no_value=no_value,
            custom=_curve(stacked=stacked, soft_min=least, mark_thresholds=limits is not None),
        ),
        overrides=overrides,
    )


def against(
    title: str,
    description: str,
    *queries: Query,
    x: str,
    unit: str,
    x_unit: str,
    transformations: Sequence[DataTransformerConfig],
    width: int = 8,
    height: int = 8,
    points: common.VisibilityMode = common.VisibilityMode.NEVER,
    least: float | None = None,
    overrides: Overrides | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Return curves over something else than time: the column ``x``, in ascending order."""
    curve = _curve(points=points, soft_min=least)
    curve.span_nulls = True
    return panel(
        "trend",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=trend.Options(legend=legend(table=False), tooltip=TOOLTIP, x_field=x),
        defaults=FieldConfig(
            unit=unit, color=BY_NAME, thresholds=GOOD, no_value=no_value, custom=curve
        ),
        overrides={x: {"unit": x_unit, "custom.axisLabel": x}, **(overrides or {})},
        transformations=transformations,
    )


def stacked_bars(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    x: str,
    transformations: Sequence[DataTransformerConfig],
    stacking: common.StackingMode = common.StackingMode.NORMAL,
    width: int = 12,
    height: int = 9,
    overrides: Overrides | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Return one stacked bar for each row of a table whose column ``x`` names it."""
    return panel(
        "barchart",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=barchart.Options(
            x_field=x,
            orientation=common.VizOrientation.HORIZONTAL,
            stacking=stacking,
            show_value=common.VisibilityMode.NEVER,
            legend=legend(table=False),
            tooltip=TOOLTIP,
            bar_width=0.8,
            x_tick_label_max_length=40,
        ),
        defaults=FieldConfig(
            unit=unit,
            min_val=0,
            color=BY_NAME,
            thresholds=GOOD,
            no_value=no_value,
            custom=barchart.FieldConfig(line_width=0, fill_opacity=85),
        ),
        overrides=overrides,
        transformations=transformations,
    )


def distribution(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str,
    width: int = 8,
    height: int = 8,
) -> Panel:
    """Return how many series have which value, over time: the same for two and for hundreds."""
    return panel(
        "heatmap",
        title,
        description,
        [query],
        width=width,
        height=height,
        options=heatmap.Options(
            calculate=True,
            calculation=common.HeatmapCalculationOptions(
                y_buckets=common.HeatmapCalculationBucketConfig(
                    mode=common.HeatmapCalculationMode.COUNT, value="20"
                ),
            ),
            color=heatmap.HeatmapColorOptions(
                mode=heatmap.HeatmapColorMode.SCHEME,
                scheme="Blues",
                fill="dark-blue",
                scale=heatmap.HeatmapColorScale.EXPONENTIAL,
                exponent=0.5,
                steps=64,
            ),
            cell_gap=1,
            filter_values=heatmap.FilterValueRange(le=1e-9),
            show_value=common.VisibilityMode.NEVER,
            y_axis=heatmap.YAxisConfig(
                unit=unit, axis_placement=common.AxisPlacement.LEFT, min_val=0
            ),
            legend=heatmap.HeatmapLegend(show=True),
            tooltip=heatmap.HeatmapTooltip(
                mode=common.TooltipDisplayMode.SINGLE, y_histogram=True, show_color_scale=True
            ),
            exemplars=heatmap.ExemplarConfig(color="rgba(255,0,255,0.7)"),
            cell_values=heatmap.CellValues(unit="short", decimals=0),
        ),
        defaults=FieldConfig(unit=unit, thresholds=GOOD, no_value=NO_DATA),
    )


def timeline(
    title: str,
    description: str,
    *queries: Query,
    width: int = 24,
    height: int = 8,
    mappings: Sequence[ValueMapping] = (),
    transformations: Sequence[DataTransformerConfig] = (),
    no_value: str = NO_DATA,
) -> Panel:
    """Return a strip for each series, coloured by its state."""
    result = panel(
        "state-timeline",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=statetimeline.Options(
            show_value=common.VisibilityMode.AUTO,
            row_height=0.85,
            merge_values=True,
            align_value=common.TimelineValueAlignment.LEFT,
            legend=common.VizLegendOptions(
                display_mode=common.LegendDisplayMode.LIST,
                placement=common.LegendPlacement.BOTTOM,
                show_legend=False,
                calcs=[],
            ),
            tooltip=common.VizTooltipOptions(mode=common.TooltipDisplayMode.SINGLE),
        ),
        defaults=FieldConfig(
            unit="short",
            color=BY_NAME,
            mappings=list(mappings),
            thresholds=GOOD,
            no_value=no_value,
            custom=statetimeline.FieldConfig(line_width=0, fill_opacity=75),
        ),
        transformations=transformations,
    )
    result.max_data_points = 200
    return result
