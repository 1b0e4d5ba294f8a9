"""Panels that show the newest value: as a number or a dial."""

from collections.abc import Sequence
from typing import Unpack

from grafana_foundation_sdk.models import common, gauge, stat
from grafana_foundation_sdk.models.dashboard import Panel

from grafana.links import DataLink
from grafana.panels import BY_THRESHOLD, NO_DATA, Look, panel
from grafana.queries import Query
from grafana.thresholds import PLAIN, missing


def figure(
    title: str,
    description: str,
    *queries: Query,
    show: common.BigValueTextMode = common.BigValueTextMode.AUTO,
    field: str = "",
    size: int | None = None,
    filled: bool = False,
    links: Sequence[DataLink] = (),
    **look: Unpack[Look],
) -> Panel:
    """Show the newest value as a large figure.

    ``field`` shows a text column instead, such as ``/^state$/``. With a ``size`` of their letters,
    several are put below each other. ``filled`` colours all of the panel.
    """
    # Of a graph, the newest number; what an instant tells may be NaN, which is not to be skipped.
    is_instant = all(query.instant for query in queries)
    options = stat.Options(
        graph_mode=common.BigValueGraphMode.NONE,
        color_mode=common.BigValueColorMode("background" if filled else "value"),
        text_mode=show,
        reduce_options=_last(field, "last" if is_instant else "lastNotNull"),
        orientation=common.VizOrientation.HORIZONTAL if size else common.VizOrientation.AUTO,
        text=common.VizTextDisplayOptions(title_size=14, value_size=size) if size else None,
    )
    look = Look(width=4, height=4, colours=PLAIN) | look
    if links:
        look["overrides"] = dict(look.get("overrides", {})) | {"/.*/": {"links": list(links)}}
    return _newest("stat", title, description, queries, options, look)


def dial(title: str, description: str, *queries: Query, **look: Unpack[Look]) -> Panel:
    """Show the newest value as a gauge from 0 to 1."""
    options = gauge.Options(reduce_options=_last("", "last"))
    look = Look(width=4, height=4, most=1, decimals=1) | look
    return _newest("gauge", title, description, queries, options, look, least=0)


def _newest(
    kind: str,
    title: str,
    description: str,
    queries: Sequence[Query],
    options: object,
    look: Look,
    *,
    least: float | None = None,
) -> Panel:
    """Make a panel coloured by thresholds, in which what is missing is grey and says so."""
    mappings = [*look.get("mappings", ()), missing(look.get("no_value", NO_DATA))]
    look = look | Look(mappings=mappings)
    return panel(kind, title, description, queries, options, look, color=BY_THRESHOLD, least=least)


def _last(field: str, calculation: str) -> common.ReduceDataOptions:
    return common.ReduceDataOptions(values=False, calcs=[calculation], fields=field)
