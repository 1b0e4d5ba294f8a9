"""Series: their names in the API, and the format of their values (numbers or text)."""

import math
from decimal import Decimal

from mlbench.contract.limits import MAX_METRIC_TEXT_LENGTH

SeriesKey = tuple[str, str]
"""Metric and rank of a series. The rank may be empty."""

EXACT_INTEGERS = 2**53
"""Largest number up to which a float holds every integer exactly."""


def series_name(metric: str, rank: str) -> str:
    """Return the name of a series in the API: ``train_loss @ 0``, or ``train_loss``."""
    return f"{metric} @ {rank}" if rank else metric


def split_name(name: str) -> SeriesKey:
    """Split the name of a series in the API into metric and rank, which may be empty."""
    metric, separator, rank = name.rpartition(" @ ")
    return (metric, rank) if separator and rank.isdecimal() and metric else (name, "")


def number_or_text(value: object) -> float | str:
    """Return a number, or the text of a number, as a float; any other text unchanged.

    A number that a float cannot hold exactly (too large, too small, too many digits) stays a text.

    Raises:
        ValueError: the value is neither a number nor a text.
    """
    if type(value) is float:  # the fast path for nearly all values
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
    # float() also accepts 1_000, spaces, and the digits of other scripts.
    if not text.isascii() or "_" in text or text != text.strip():
        return text
    if not math.isfinite(number):
        is_exact = "n" in text.lower()  # inf, infinity and nan, but not 1e400
    elif not number:
        is_exact = not text.lower().partition("e")[0].strip("+-0.")
    else:
        # A float holds up to 15 digits exactly. int() refuses thousands of digits, but the text of
        # a finite float has at most 309.
        digits = text.lstrip("+-").lstrip("0")
        is_exact = len(digits) <= 15 or not digits.isdecimal() or int(digits) == abs(int(number))
    return number if is_exact else text


def format_value(value: float | str) -> str:
    """Return a value in Prometheus's notation: ``200``, ``1e-07``, ``+Inf``; a text unchanged."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    text = repr(value)
    if value and not 1e-6 <= abs(value) < 1e21:  # Prometheus uses an exponent outside this range
        return text
    return format(Decimal(text), "f") if "e" in text else text.removesuffix(".0")


def storable_text(value: object) -> str:
    """Return the value if it is a text that Prometheus and every database can store.

    Raises:
        ValueError: the value is not a text, is too long, or has characters that cannot be stored.
    """
    if not isinstance(value, str) or len(value) > MAX_METRIC_TEXT_LENGTH or "\0" in value:
        raise ValueError(f"a text of at most {MAX_METRIC_TEXT_LENGTH} characters, without NUL")
    # Raises UnicodeEncodeError, a ValueError, for half of a surrogate pair.
    value.encode()
    return value
