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


# Unix seconds. Past it (33,000 years from now) microseconds are no longer exact.
_LATEST = 1e12


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
            yield from _samples(fields, rank, time_us)
            # The step is a series of its own, in which Prometheus can hold one value per
            # millisecond: lines of the same one share it.
            step = fields.get("step")
            if step is not None and last_step != (time_us // 1000, step):
                last_step = (time_us // 1000, step)
                yield Sample(names.STEP, rank, time_us, number_or_text(step))
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
            return value if "_" in value else float(value)
        except ValueError:
            return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return str(value)
    raise _MalformedLineError("a value must be a number or a text")


def spell(value: float | str) -> str:
    """Return a value as Prometheus writes it: ``200``, ``0.0000001``, ``+Inf``; a text as it is."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
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
    if not isinstance(time, int | float) or isinstance(time, bool) or not abs(time) < _LATEST:
        raise _MalformedLineError("time must be in Unix seconds")
    return round(time * 1e6)


def _samples(fields: dict[str, Any], rank: str, time_us: int) -> list[Sample]:
    # In full before the first is given out: a line counts as a whole or not at all.
    metrics = (
        fields["metrics"] if "metrics" in fields else {fields.get("name"): fields.get("value")}
    )
    if not isinstance(metrics, dict) or not all(isinstance(n, str) and n for n in metrics):
        raise _MalformedLineError("metrics must map names to values")
    rank = str(fields.get("rank", rank))
    return [Sample(n, rank, time_us, number_or_text(value)) for n, value in metrics.items()]


def _goal(goal: Any) -> Goal:
    if not isinstance(goal, dict) or not isinstance(goal.get("metric"), str):
        raise _MalformedLineError("a goal must name its metric")
    value = number_or_text(goal.get("value"))
    if isinstance(value, str):
        raise _MalformedLineError("a goal's value must be a number")
    return Goal(goal["metric"], value, bool(goal.get("lower_is_better", False)))
