"""Series: their names on the API, and the numbers and texts that are their values."""

import math
from decimal import Decimal

from mlbench.contract.limits import MAX_METRIC_TEXT_LENGTH

SeriesKey = tuple[str, str]
"""Metric and rank of one of an owner's series. The rank may be empty."""

# Outside of these, Prometheus writes a power of ten.
_TINY, _HUGE = 1e-6, 1e21
# Floats hold every whole number up to here, and so of up to so many digits.
EXACT_INTEGERS = 2**53
_EXACT_DIGITS = 15


def series_name(metric: str, rank: str) -> str:
    """Return the name of a series on the API: ``train_loss @ 0``, or ``train_loss``."""
    return f"{metric} @ {rank}" if rank else metric


def split_name(name: str) -> SeriesKey:
    """Split the name of a series on the API into metric and rank, which may be empty."""
    metric, separator, rank = name.rpartition(" @ ")
    return (metric, rank) if separator and rank.isdecimal() and metric else (name, "")


def number_or_text(value: object) -> float | str:
    """Return a number, or the text of one, as a float; any other text as it is.

    A number that no float holds exactly (too large, too small, too many digits) stays a text. Any
    other value is a ValueError.
    """
    if type(value) is float:  # nearly all of them
        return value
    if isinstance(value, str):
        return _float_or_text(storable_text(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) <= EXACT_INTEGERS else _float_or_text(str(value))
    raise ValueError("a value must be a number or a text")


def _float_or_text(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    # float() also reads 1_000, blanks and the digits of any script.
    plain = text.isascii() and "_" not in text and text == text.strip()
    return number if plain and _is_exact(text, number) else text


def _is_exact(text: str, number: float) -> bool:
    if not math.isfinite(number):
        return "n" in text.lower()  # inf, infinity and nan, but not 1e400
    if not number:
        return not text.lower().partition("e")[0].strip("+-0.")
    # int() refuses thousands of digits, but a finite float has 309 at most.
    digits = text.lstrip("+-").lstrip("0")
    return len(digits) <= _EXACT_DIGITS or not digits.isdecimal() or int(digits) == abs(int(number))


def spell(value: float | str) -> str:
    """Return a value as Prometheus writes it: ``200``, ``1e-07``, ``+Inf``; a text as it is."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    text = repr(value)
    if value and not _TINY <= abs(value) < _HUGE:
        return text
    return format(Decimal(text), "f") if "e" in text else text.removesuffix(".0")


def storable_text(value: object) -> str:
    """Return a text that Prometheus and every database can store; ValueError for anything else."""
    if not isinstance(value, str) or len(value) > MAX_METRIC_TEXT_LENGTH or "\0" in value:
        raise ValueError(f"a text of at most {MAX_METRIC_TEXT_LENGTH} characters, without NUL")
    # Fails for half of a surrogate pair.
    value.encode()
    return value
