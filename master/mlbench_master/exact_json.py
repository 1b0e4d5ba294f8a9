"""Parse JSON without rounding: numbers that exceed the range of floats become strings."""

import json
import math
import re
import sys
from typing import Any

import orjson

# orjson rounds whole numbers beyond 64 bits. The character before a number makes the search three
# times as fast, because it does not begin at each digit of a fraction.
LONG_NUMBER = re.compile(rb"[\s:,\[-][1-9][0-9]{18}")
# Numbers that orjson refuses, and that Python's slow parser may accept.
_OF_PYTHON = re.compile(rb"NaN|Infinity|[eE]\+?[0-9]{3}|[0-9]{300}")


def loads(data: bytes) -> Any:
    """Parse JSON, including NaN, Infinity, and whole numbers of any size; 1e400 becomes a string.

    Raises:
        ValueError: the data are not JSON, or a number has more digits than Python converts.
        RecursionError: the data are nested too deeply.
    """
    is_number = data[:1].isdigit()
    return loads_exactly(data) if is_number or LONG_NUMBER.search(data) else loads_fast(data)


def loads_fast(data: bytes) -> Any:
    """Parse like ``loads``, for JSON without matches of ``LONG_NUMBER``."""
    try:
        return orjson.loads(data)
    except ValueError:
        if not _OF_PYTHON.search(data):
            raise
        return loads_exactly(data)


def loads_exactly(data: bytes) -> Any:
    """Parse like ``loads``, slowly."""
    parsed = json.loads(
        data,
        parse_float=lambda text: text if math.isinf(number := float(text)) else number,
        parse_int=_to_int,
    )
    # JSON can contain half of a surrogate pair, which is not valid text. Orjson refuses it.
    json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _to_int(text: str) -> int:
    limit = sys.get_int_max_str_digits()
    if len(text) > limit:
        raise ValueError(f"a number must have at most {limit} digits (got {len(text)})")
    return int(text)
