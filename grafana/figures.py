"""Figures: the newest value, as a number, a dial or a bar."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.models import bargauge, common, gauge, stat
from grafana_foundation_sdk.models.dashboard import (
    FieldConfig,
    Panel,
    ThresholdsConfig,
    ValueMapping,
)

from grafana.links import DataLink
from grafana.panels import BY_THRESHOLD, NO_DATA, Overrides, panel
from grafana.queries import Query
from grafana.thresholds import PLAIN


def figure(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    width: int = 3,
    height: int = 4,
    decimals: int | None = None,
    colours: ThresholdsConfig = PLAIN,
    mappings: Sequence[ValueMapping] = (),
    sparkline: bool = False,
    show: common.BigValueTextMode = common.BigValueTextMode.AUTO,
    field: str = "",
    links: Sequence[DataLink] = (),
    overrides: Overrides | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Return the newest value as a large figure. ``field`` takes a text column, ``/^state$/``."""
    return panel(
        "stat",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=stat.Options(
            graph_mode=common.BigValueGraphMode.AREA
            if sparkline
            else common.BigValueGraphMode.NONE,
            color_mode=common.BigValueColorMode.VALUE,
            justify_mode=common.BigValueJustifyMode.AUTO,
            text_mode=show,
            reduce_options=_last(field),
            orientation=common.VizOrientation.AUTO,
        ),
        defaults=FieldConfig(
            unit=unit,
            decimals=decimals,
            color=BY_THRESHOLD,
            thresholds=colours,
            mappings=list(mappings),
            no_value=no_value,
        ),
        overrides=_with_links(links) | dict(overrides or {}),
    )


def dial(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    colours: ThresholdsConfig,
    width: int = 4,
    height: int = 4,
    most: float = 1,
    no_value: str = NO_DATA,
) -> Panel:
    """Return the newest value as a gauge from 0 to ``most``."""
    return panel(
        "gauge",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=gauge.Options(
            show_threshold_labels=False,
            show_threshold_markers=True,
            reduce_options=_last(),
            orientation=common.VizOrientation.AUTO,
        ),
        defaults=FieldConfig(
            unit=unit,
            min_val=0,
            max_val=most,
            decimals=1,
            color=BY_THRESHOLD,
            thresholds=colours,
            no_value=no_value,
        ),
    )


def bars(
    title: str,
    description: str,
    *queries: Query,
    unit: str,
    width: int = 8,
    height: int = 8,
    decimals: int | None = None,
    most: float | None = None,
    colours: ThresholdsConfig = PLAIN,
    overrides: Overrides | None = None,
    no_value: str = NO_DATA,
) -> Panel:
    """Return one horizontal bar for each series, as long as its newest value."""
    return panel(
        "bargauge",
        title,
        description,
        queries,
        width=width,
        height=height,
        options=bargauge.Options(
            display_mode=common.BarGaugeDisplayMode.BASIC,
            value_mode=common.BarGaugeValueMode.COLOR,
            show_unfilled=True,
            reduce_options=_last(),
            orientation=common.VizOrientation.HORIZONTAL,
        ),
        defaults=FieldConfig(
            unit=unit,
            decimals=decimals,
            min_val=0,
            max_val=most,
            color=BY_THRESHOLD,
            thresholds=colours,
            no_value=no_value,
        ),
        overrides=overrides,
    )


def _last(field: str = "") -> common.ReduceDataOptions:
    return common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields=field)


def _with_links(links: Sequence[DataLink]) -> dict[str, Mapping[str, object]]:
    return {"/.*/": {"links": list(links)}} if links else {}
