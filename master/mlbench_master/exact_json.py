"""Parsing JSON without rounding: numbers that no float holds become texts."""

import json
import math
import re
import sys
from typing import Any

import orjson

# orjson rounds whole numbers beyond 64 bits.
LONG_NUMBER = re.compile(rb"[1-9][0-9]{18}")
# What orjson refuses and Python's parser, which is slow, may take.
_OF_PYTHON = re.compile(rb"NaN|Infinity|[eE]\+?[0-9]{3}|[0-9]{300}")


def loads(data: bytes) -> Any:
    """Parse JSON, also NaN and Infinity, whole numbers of any size, and 1e400 as a text.

    Raises:
        ValueError: it is no JSON, or has a number of more digits than Python converts.
        RecursionError: it is nested too deeply.
    """
    return loads_exactly(data) if LONG_NUMBER.search(data) else loads_fast(data)


def loads_fast(data: bytes) -> Any:
    """Do what ``loads`` does, for JSON in which ``LONG_NUMBER`` finds nothing."""
    try:
        return orjson.loads(data)
    except ValueError:
        if not _OF_PYTHON.search(data):
            raise
        return loads_exactly(data)


def loads_exactly(data: bytes) -> Any:
    """Do what ``loads`` does, slowly."""
    parsed = json.loads(data, parse_float=_to_float, parse_int=_to_int)
    # JSON can spell half of a character pair, which is no text; orjson refuses it.
    json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _to_float(text: str) -> float | str:
    number = float(text)
    return text if math.isinf(number) else number


def _to_int(text: str) -> int:
    most = sys.get_int_max_str_digits()
    if len(text) > most:
        raise ValueError(f"a number has at most {most} digits (not {len(text)})")
    return int(text)
