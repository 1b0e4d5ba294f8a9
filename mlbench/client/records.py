"""What travels between client and master, as frozen dataclasses.

A master may say more than a record here knows of: that is passed over, or found in ``fields``.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mlbench.names import ACTIVE_STATES, RunState
from mlbench.run_settings import Setting

Series = dict[str, list["Point"]]
"""Points by the name of their series, such as ``train_loss @ 0``; each list in order of time."""


@dataclass(frozen=True)
class Goal:
    """What a run wants to reach."""

    metric: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Delivery:
    """Where a run's samples are, counted at its end."""

    recorded: int
    in_prometheus: int
    kept: int


@dataclass(frozen=True)
class Rank:
    """A rank of a run's latest attempt, and the pod that it is on."""

    rank: int
    pod: str
    exit_code: int | None


@dataclass(frozen=True)
class Run:
    """A run. Times are UTC texts, such as ``2018-08-03T09:21:29.347000Z``."""

    id: int
    name: str
    state: RunState
    reason: str
    num_workers: int
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    goal: Goal | None
    delivery: Delivery | None
    ranks: tuple[Rank, ...]
    benchmark: str = ""
    """The official benchmark; empty where the run has an image of its own."""
    args: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    """The run's own image; empty where it has none."""
    command: str = ""
    """What the run's own image runs."""
    working_dir: str | None = None
    """The folder that the command starts in; None: the worker's own."""
    backend: str = ""
    """How the ranks talk to each other; empty: as the benchmark likes it."""
    num_cpus: float | None = None
    """Cores of each worker; None: no limit."""
    max_bandwidth: float | None = None
    """Between workers, in Mbit/s; None: no limit."""
    run_all_nodes: bool | None = None
    gpu_enabled: bool | None = None
    light_target: bool | None = None
    seed: int | None = None
    deadline_seconds: float | None = None
    """After its start, when training shall end; None: never."""
    waiting: str | None = None
    """What the run waits for, in words; nothing while it goes on."""
    settings: Mapping[str, Setting] | None = None
    """What the task runs with, as it says itself; None until it does."""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Run":
        """Return the run that the API describes."""
        goal, delivery = fields["goal"], fields["delivery"]
        parts = {
            "goal": Goal(**_known(Goal, goal)) if goal else None,
            "delivery": Delivery(**_known(Delivery, delivery)) if delivery else None,
            "ranks": tuple(Rank(**_known(Rank, rank)) for rank in fields["ranks"]),
            "fields": fields,
        }
        return cls(**{**_known(cls, fields), **parts})


@dataclass(frozen=True)
class Pod:
    """A worker pod, and the run and rank that it has, if any."""

    name: str
    labels: str
    phase: str
    ip: str | None
    node: str | None = None
    run_id: int | None = None
    rank: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Pod":
        """Return the pod that the API describes."""
        return cls(**{**_known(cls, fields), "fields": fields})


@dataclass(frozen=True)
class Benchmark:
    """An official benchmark."""

    name: str
    description: str
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Benchmark":
        """Return the benchmark that the API describes."""
        return cls(**{**_known(cls, fields), "fields": fields})


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time; both as the API writes them."""

    date: str
    value: str
    cumulative: bool | None = None
    """As it was given with the sample; None where it was not."""
    metadata: object = None
    """As it was given with the sample; None where it was not."""

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
            fields["date"], fields["value"], fields.get("cumulative"), fields.get("metadata")
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


@dataclass(frozen=True)
class LogPage:
    """A piece of a rank's log."""

    rank: int
    stream: str
    attempt: int
    text: str
    offset: int
    """Where the next piece begins, in bytes."""
    complete: bool
    """Whether this is the last piece there will be."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "LogPage":
        """Return the piece that the API describes."""
        return cls(**_known(cls, fields))


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


def _known(record: type[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    names = (part.name for part in dataclasses.fields(record))
    return {name: fields[name] for name in names if name in fields}
