"""Samples: parsing the lines of a stream, and the labels of their series."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from mlbench.contract import names
from mlbench.contract.limits import MAX_FACT_LENGTH, MAX_METRIC_NAME_LENGTH
from mlbench.contract.process import ProcessRank
from mlbench.contract.records import Interference, ReportedMachine, Target
from mlbench.contract.reported_settings import Setting, check_settings
from mlbench.contract.series import SeriesKey, format_value, number_or_text, storable_text
from mlbench_master import timestamps
from mlbench_master.exact_json import LONG_NUMBER, loads_exactly, loads_fast
from mlbench_master.recording.not_recorded import STATED

# Lines that cannot be parsed are kept as samples of this metric, so that their author sees them.
MALFORMED = "malformed"


class Sample(NamedTuple):
    """One value of one metric. ``rank`` is empty for a sample of no particular rank."""

    metric: str
    rank: str
    time_us: int
    value: float | str
    cumulative: bool | None = None
    """As the client gave it; None if it gave none."""
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The settings of a run's task, by name."""

    values: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Began:
    """A process of a worker that has several, and when it began, in Unix seconds."""

    process: ProcessRank
    at: float


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Counts of missing data, by the fields of ``records.NotRecorded``."""

    counts: Mapping[str, int]


Fact = Target | TaskSettings | ReportedMachine | Interference | Began | Unrecorded
"""A statement of a line about its run."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of lines of a stream, in their order."""

    samples: list[Sample]
    facts: list[Fact]


# Unix seconds that the API can write as a date.
_EARLIEST, _LATEST = timestamps.EARLIEST_US // 10**6, timestamps.LATEST_US // 10**6

# The names of what a line may state instead of samples.
_STATED = frozenset({"goal", "settings", "process", "machine", "interference", "not_recorded"})

MAX_RANKS = 100_000
MAX_METADATA_BYTES = 64 << 10
MAX_MACHINE_BYTES = 64 << 10
# Limits on what is kept of malformed lines: the length of each, and their number per batch.
_SHOWN_CHARACTERS = 4096
_SHOWN_LINES = 100
# Limit on counts from an agent, with which sums over all ranks stay exact in JavaScript.
_MAX_COUNTED = 2**31


def parse_lines(data: bytes, rank: str, received_us: int, metrics: Collection[str] = ()) -> Content:
    """Parse the lines that a rank wrote; return the samples of some metrics, or of all.

    A malformed line becomes a sample of its text, dated ``received_us``. If there are many, only
    the first ones do, and one more sample counts the others. The last fact counts all.
    """
    samples: list[Sample] = []
    facts: list[Fact] = []
    # Search all lines at once, because a search in each line takes longer than parsing it.
    read_json = loads_exactly if LONG_NUMBER.search(data) else loads_fast
    last_step: tuple[int, Any, str] | None = None
    malformed = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            fields = read_json(line)
            time_us = _time_us(fields)
            if not _STATED.isdisjoint(fields):
                facts.append(_stated(fields, time_us, len(line)))
                continue
            # All before the first is added: a line counts as a whole or not at all.
            line_rank = _rank(fields["rank"]) if "rank" in fields else rank
            of_line = _samples(fields, line_rank, time_us, metrics)
            # The step is a series too. Prometheus holds one value of it per millisecond, so lines
            # of the same millisecond share one.
            step = fields.get("step")
            if step is not None and last_step != (time_us // 1000, step, line_rank):
                of_line.append(Sample(names.STEP, line_rank, time_us, number_or_text(step)))
                last_step = (time_us // 1000, step, line_rank)
            samples += of_line
        except (ValueError, TypeError, RecursionError):
            malformed += 1
            if malformed <= _SHOWN_LINES:
                samples.append(Sample(MALFORMED, rank, received_us, show(line)))
    if malformed > _SHOWN_LINES:
        more = f"{malformed - _SHOWN_LINES:,} more lines that are no samples"
        samples.append(Sample(MALFORMED, rank, received_us, more))
    if malformed:
        facts.append(Unrecorded({"malformed_lines": malformed}))
    return Content(samples, facts)


def _stated(fields: dict[str, Any], time_us: int, length: int) -> Fact:
    """Return the report in a line that has one of the names in ``_STATED``."""
    match fields:
        case {"goal": {**target}}:
            value = number_or_text(target.get("value"))
            if isinstance(value, str) or not math.isfinite(value):
                raise ValueError("a target's value must be a finite number")
            lower_is_better = bool(target.get("lower_is_better", False))
            return Target(_name(target.get("metric")), value, lower_is_better)
        case {"settings": settings}:
            check_settings(settings)
            return TaskSettings(settings)
        case {"process": {**stated}}:
            numbers = (stated.get(name) for name in ("rank", "world_size", "restart"))
            process = ProcessRank(*(int(_rank(number)) for number in numbers))
            if process.rank >= process.world_size:
                raise ValueError("process: rank must be below world_size")
            return Began(process, time_us / 1e6)
        case {"machine": _} | {"interference": _} if length > MAX_MACHINE_BYTES:
            raise ValueError(f"machine, interference: must have at most {MAX_MACHINE_BYTES} bytes")
        case {"machine": machine}:
            return read_machine(machine)
        case {"interference": {}}:
            interference = Interference.from_fields(fields["interference"])
            _check_storable(asdict(interference))
            if not interference.seconds > 0 or interference.cores < 1:
                raise ValueError("interference: seconds must be above 0, and cores at least 1")
            return interference
        case {"not_recorded": {**counts}}:
            return _unrecorded(counts)
    raise ValueError("a reported fact must be a JSON object")


def parse_posted(data: bytes) -> list[Sample]:
    """Parse the lines that ``to_posted_lines`` wrote."""
    samples = (Sample(*orjson.loads(line)) for line in data.splitlines())
    return [sample._replace(value=number_or_text(sample.value)) for sample in samples]


def to_posted_lines(samples: Iterable[Sample]) -> bytes:
    """Write samples as lines for ``parse_posted``, each once."""
    # NaN and infinity are no JSON, so numbers are spelled as texts.
    lines = (orjson.dumps((*s[:3], format_value(s.value), *s[4:])) for s in samples)
    return b"".join(line + b"\n" for line in dict.fromkeys(lines))


def prometheus_labels(owner: str, key: SeriesKey) -> dict[str, str]:
    """Return the labels of a series in Prometheus."""
    kind, _, name = owner.partition("/")
    metric, rank = key
    if kind == "pod":
        return {"__name__": names.POD_METRIC, "pod": name, "metric": metric}
    series = names.RUN_ADDED if kind == "added" else names.RUN_METRIC
    labels = {"__name__": series, "run_id": name, "metric": metric}
    if rank:
        labels["rank"] = rank
    return labels


def _time_us(fields: object) -> int:
    time = fields.get("time") if isinstance(fields, dict) else None
    if not isinstance(time, int | float) or isinstance(time, bool):
        raise ValueError("a line must be a JSON object with a time in Unix seconds")
    if not _EARLIEST <= time <= _LATEST:
        raise ValueError("time must be in the years 1 to 9999")
    return round(time * 1e6)


def _samples(
    fields: dict[str, Any], rank: str, time_us: int, metrics: Collection[str]
) -> list[Sample]:
    values = fields["metrics"] if "metrics" in fields else {fields.get("name"): fields.get("value")}
    if not isinstance(values, dict):
        raise ValueError("metrics must map names to values")
    cumulative = metadata = None
    if "metadata" in fields:
        if len(orjson.dumps(fields["metadata"])) > MAX_METADATA_BYTES:
            raise ValueError(f"metadata: must have at most {MAX_METADATA_BYTES} bytes as JSON")
        cumulative, metadata = bool(fields.get("cumulative", False)), fields["metadata"]
    # Like Sample(), but in half of the time: there may be fifty thousand per second.
    create = tuple.__new__
    samples = [
        create(Sample, (_name(name), rank, time_us, number_or_text(value), cumulative, metadata))
        for name, value in values.items()
    ]
    return [sample for sample in samples if sample[0] in metrics] if metrics else samples


@lru_cache(4096)
def _name(value: object) -> str:
    name = storable_text(value)
    if not 0 < len(name) <= MAX_METRIC_NAME_LENGTH:
        raise ValueError(f"name: must have 1 to {MAX_METRIC_NAME_LENGTH} characters")
    return name


def _rank(stated: object) -> str:
    number = int(stated) if isinstance(stated, str) and stated.isdecimal() else stated
    if type(number) is not int or not 0 <= number < MAX_RANKS:
        raise ValueError(f"a whole number of ranks must be from 0 to {MAX_RANKS - 1}")
    return str(number)


def show(data: bytes) -> str:
    """Return the beginning of any data as a text that can be stored."""
    # A character has at most four bytes.
    text = data[: 4 * _SHOWN_CHARACTERS].decode(errors="replace")
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(data) <= 4 * _SHOWN_CHARACTERS and len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(data):,} bytes)"


def read_machine(fields: object) -> ReportedMachine:
    """Return the machine that a JSON object reports, without unknown fields.

    Raises:
        ValueError: a fact is of another type, or cannot be stored.
    """
    if not isinstance(fields, Mapping):
        raise ValueError("a machine must be a JSON object")
    # Ignore the ranks, because one of them cannot know which others are on the machine.
    machine = ReportedMachine.from_fields({**fields, "ranks": ()})
    _check_storable(asdict(machine))
    return machine


def _unrecorded(counts: Mapping[Any, Any]) -> Unrecorded:
    if not counts.keys() <= STATED:
        raise ValueError(f"not_recorded: keys must be among {', '.join(sorted(STATED))}")
    for number in counts.values():
        if type(number) is not int or not 0 < number < _MAX_COUNTED:
            raise ValueError(f"a count must be a whole number from 1 to {_MAX_COUNTED - 1}")
    return Unrecorded(counts)


def _check_storable(fact: object) -> None:
    match fact:
        case str():
            fact.encode()
            if len(fact) > MAX_FACT_LENGTH or "\0" in fact:
                raise ValueError(f"a text has at most {MAX_FACT_LENGTH} characters, and no NUL")
        case int() | float():
            if not (math.isfinite(fact) and -(2**63) <= fact < 2**63):
                raise ValueError("a number must be finite and have at most 64 bits")
        case dict():
            for name, part in fact.items():
                _check_storable(name)
                _check_storable(part)
        case tuple():
            for part in fact:
                _check_storable(part)
