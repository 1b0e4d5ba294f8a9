"""Figures in words: digits, units, and ``-`` for a figure that was not measured."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlbench.contract.metric_titles import metric_title
from mlbench.contract.records import Target
from mlbench.contract.reported_settings import format_value

NOTHING = "-"
TIMES = "\N{MULTIPLICATION SIGN}"

_SIGNIFICANT = 4
_MAX_DECIMALS = 2
# Outside of this range, numbers are written as 1.23e-06.
_MIN_PLAIN, _MAX_PLAIN = 1e-5, 1e12
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# With three significant digits, from here on a duration is a second, or a minute.
_MIN_SECOND, _MIN_MINUTE = 0.9995, 59.95


def number(value: float | None, decimals: int | None = None) -> str:
    """Return a number with about four significant digits, or with ``decimals``."""
    if value is None:
        return NOTHING
    if value and not _MIN_PLAIN <= abs(value) < _MAX_PLAIN:
        return f"{value:.2e}"
    places = _decimals([value]) if decimals is None else decimals
    return f"{value:,.{places}f}"


def column(values: Sequence[float | int | str | None]) -> list[str]:
    """Return the cells of a column, with the decimals that suit its largest number."""
    decimals = _decimals(value for value in values if isinstance(value, float))
    return [
        value
        if isinstance(value, str)
        else f"{value:,}"
        if isinstance(value, int)
        else number(value, decimals)
        for value in values
    ]


def seconds(value: float | None) -> str:
    """Return a duration as the web pages do: ``312 ms``, ``5.12 s``, ``2 min 05 s``, ``3 d 4 h``.

    Columns of a table have seconds instead, all with the same number of decimals.
    """
    if value is None:
        return NOTHING
    if 0 < value < _MIN_SECOND:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < _MIN_MINUTE else whole_seconds(value)


def whole_seconds(value: float) -> str:
    """Return a duration without fractions of a second, such as ``5 s``."""
    if round(value) < _MINUTE:
        return f"{value:.0f} s"
    if round(value) < _HOUR:
        minutes, rest = divmod(round(value), _MINUTE)
        return f"{minutes} min {rest:02} s"
    if round(value) < _DAY:
        hours, minutes = divmod(round(value) // _MINUTE, 60)
        return f"{hours} h {minutes:02} min"
    days, rest = divmod(round(value), _DAY)
    return f"{days} d {rest // _HOUR} h"


def percent(share: float | None, decimals: int = 1) -> str:
    """Return a share from 0 to 1 as a percentage."""
    return NOTHING if share is None else f"{share * 100:.{decimals}f} %"


def throughput(samples_per_second: float, settings: Mapping[str, Any] | None) -> str:
    """Return a speed such as ``790 samples/s``, or ``5,200 tokens/s`` if the settings say so."""
    return f"{samples_per_second:,.0f} {(settings or {}).get('sample', 'sample')}s/s"


def target(target: Target) -> str:
    """Return a target, such as ``Validation accuracy ≥ 97 %``."""
    unit = " %" if "Prec@" in target.metric else ""
    sign = "≤" if target.lower_is_better else "≥"
    return f"{metric_title(target.metric)} {sign} {target.value:g}{unit}"


def pairs(values: Mapping[str, Any]) -> str:
    """Return settings as ``--set`` takes them, such as ``epochs=3 compile=false``."""
    return " ".join(f"{name}={format_value(value)}" for name, value in values.items())


def _decimals(values: Iterable[float]) -> int:
    largest = max((abs(value) for value in values), default=0.0)
    if 0 < largest < 1:
        return _MAX_DECIMALS - math.floor(math.log10(max(largest, _MIN_PLAIN)))
    before_point = len(f"{largest:.0f}")
    return min(_MAX_DECIMALS, max(0, _SIGNIFICANT - before_point))
