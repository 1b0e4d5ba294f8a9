"""Points of series as they are read, and samples as they are added."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Series = dict[str, list["Point"]]
"""Points by the name of their series, such as ``train_loss @ 0``; each list in order of time."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time; both as the API writes them."""

    date: str
    value: str
    cumulative: bool | None = None
    """As it was given with the sample; None where it was not."""
    metadata: object = None
    """As it was given with the sample; None where it was not."""
    minimum: str | None = None
    """Of the finite numbers of the points that this one is the average of; None for any other."""
    maximum: str | None = None

    @property
    def number(self) -> float:
        """The value as a number.

        Raises:
            ValueError: the value is a text.
        """
        return float(self.value)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Point":
        """Return the point that the API describes."""
        return cls(
            fields["date"],
            fields["value"],
            fields.get("cumulative"),
            fields.get("metadata"),
            fields.get("min"),
            fields.get("max"),
        )


def to_series(fields: Mapping[str, Any]) -> Series:
    """Return the series that the API describes."""
    return {name: [Point.from_fields(point) for point in points] for name, points in fields.items()}


@dataclass(frozen=True)
class Sample:
    """A value to add to a run or to a pod: give one of ``run_id`` and ``pod_name``."""

    name: str
    """Of the metric; `` @ RANK`` at its end makes it a rank's."""
    value: float | str
    date: datetime | str = field(default_factory=lambda: datetime.now(UTC))
    run_id: int | str | None = None
    pod_name: str | None = None
    cumulative: bool = False
    """Whether the values of this metric only ever grow."""
    metadata: object = ""
    """Whatever JSON can hold."""

    def to_fields(self) -> dict[str, object]:
        """Return the sample as the API takes it; what has its default is left out."""
        fields = {
            "run_id": self.run_id,
            "pod_name": self.pod_name,
            "name": self.name,
            "value": _to_json(self.value),
            "date": to_text(self.date),
            "cumulative": self.cumulative or None,
            "metadata": None if self.metadata == "" else self.metadata,
        }
        return {key: part for key, part in fields.items() if part is not None}


def to_text(moment: datetime | str) -> str:
    """Return a time as the API takes it. A datetime without a zone is in UTC."""
    if isinstance(moment, str):
        return moment
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return aware.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _to_json(value: float | str) -> float | str:
    """Return a value as JSON can hold it: NaN and the infinities by their names."""
    if isinstance(value, (int, str)):
        return value
    number = float(value)  # numpy has floats that are none of Python's
    return number if math.isfinite(number) else str(number)
