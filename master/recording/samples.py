"""What a metrics stream says: its lines, as samples and goals."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from mlbench import names

# A line that is no sample is kept under this name: seen by its author, and counted like the rest.
MALFORMED = "malformed"


SeriesKey = tuple[str, str]
"""A series among its owner's: metric and rank, which may be empty."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric. ``rank`` is empty for a sample of no particular rank."""

    metric: str
    rank: str
    time_us: int
    value: float | str


@dataclass(frozen=True, slots=True)
class Goal:
    """What a run wants to reach."""

    metric: str
    value: float
    lower_is_better: bool


# The years 1 to 9999 in Unix seconds: what the API can write as a date.
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799


# Outside of these, Prometheus writes a power of ten.
_TINY, _HUGE = 1e-6, 1e21


class _MalformedLineError(ValueError):
    pass


def parse_lines(data: bytes, rank: str, received_us: int) -> Iterator[Sample | Goal]:
    """Yield the samples and goals of whole lines, in order.

    ``received_us`` dates lines that cannot be understood.
    """
    last_step: tuple[int, Any] | None = None
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            time_us = _time_us(fields)
            if "goal" in fields:
                yield _goal(fields["goal"])
                continue
            # In full before the first is given out: a line counts as a whole or not at all.
            found = _samples(fields, rank, time_us)
            # The step is a series of its own, in which Prometheus can hold one value per
            # millisecond: lines of the same one share it.
            step = fields.get("step")
            if step is not None and last_step != (time_us // 1000, step):
                found.append(Sample(names.STEP, rank, time_us, number_or_text(step)))
                last_step = (time_us // 1000, step)
            yield from found
        except (ValueError, RecursionError):
            yield Sample(MALFORMED, rank, received_us, line.decode(errors="replace"))


def whole_lines(data: bytes) -> bytes:
    """Return the part of the data that ends with its last line end."""
    return data[: data.rfind(b"\n") + 1]


def number_or_text(value: object) -> float | str:
    """Return a float where the value is a number or spells one, else the text.

    Raises:
        ValueError: the value is neither a number nor a text.
    """
    if isinstance(value, str):
        try:
            # float() also reads 1_000, which nobody means as a number.
            return _text(value) if "_" in value else float(value)
        except ValueError:
            return _text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return str(value)
    raise _MalformedLineError("a value must be a number or a text")


def spell(value: float | str) -> str:
    """Return a value as Prometheus writes it: ``200``, ``1e-07``, ``+Inf``; a text as it is."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if value and not _TINY <= abs(value) < _HUGE:
        return repr(value)
    return format(Decimal(repr(value)).normalize(), "f")


def to_json_lines(samples: Iterable[Sample]) -> bytes:
    """Return the lines that ``parse_lines`` reads back as these samples."""
    return b"".join(
        json.dumps(
            {"name": s.metric, "rank": s.rank, "time": s.time_us / 1e6, "value": s.value}
        ).encode()
        + b"\n"
        for s in samples
    )


def _time_us(fields: object) -> int:
    if not isinstance(fields, dict):
        raise _MalformedLineError("a line must be a JSON object")
    time = fields.get("time")
    if not isinstance(time, int | float) or isinstance(time, bool):
        raise _MalformedLineError("time must be in Unix seconds")
    if not _EARLIEST <= time <= _LATEST:
        raise _MalformedLineError("time must be in the years 1 to 9999")
    return round(time * 1e6)


def _samples(fields: dict[str, Any], rank: str, time_us: int) -> list[Sample]:
    metrics = (
        fields["metrics"]
        if "metrics" in fields
        else {_text(fields.get("name")): fields.get("value")}
    )
    if not isinstance(metrics, dict) or not all(metrics):
        raise _MalformedLineError("metrics must map names to values")
    stated = fields.get("rank", rank)
    rank = str(stated) if isinstance(stated, int) else _text(stated)
    return [Sample(_text(n), rank, time_us, number_or_text(v)) for n, v in metrics.items()]


def _goal(goal: Any) -> Goal:
    if not isinstance(goal, dict) or not goal.get("metric"):
        raise _MalformedLineError("a goal must name its metric")
    value = number_or_text(goal.get("value"))
    if isinstance(value, str) or not math.isfinite(value):
        raise _MalformedLineError("a goal's value must be a finite number")
    return Goal(_text(goal["metric"]), value, bool(goal.get("lower_is_better", False)))


def _text(value: object) -> str:
    """Return a text, if it is one that can be written.

    JSON can spell half of a character pair, which neither Prometheus nor a database takes.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str):
        raise _MalformedLineError("names must be texts")
    value.encode()
    return value
