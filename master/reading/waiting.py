"""Samples that wait for Prometheus, as a reader sees them: bounded in work, however much waits."""

import re
import threading
import time
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import orjson

from master.models import Stream
from master.reading.points import Note, Pieces, Points
from master.reading.promql import PrometheusError
from master.recording.delivery import BATCH_BYTES
from master.recording.plan import plan
from master.recording.samples import MALFORMED, Sample, SeriesKey, spell
from master.recording.streams import POSTED, parse, read, read_lines, waiting

# Points of one piece of what waits.
_POINTS = 10_000
# About a second's work each: looking for the lines that name a metric, and reading these.
_MOST_SEARCHED_BYTES = 64 << 20
_MOST_READ_BYTES = 8 << 20
# More than a batch is read by one thread at a time: together they would only be slower.
_PATIENCE_SECONDS = 1.0
_one_reader = threading.Lock()


class BehindError(PrometheusError):
    """So much waits for Prometheus that it cannot be read in time."""


@dataclass(slots=True)
class Waiting:
    """Samples of one series that wait for delivery, in little memory."""

    times_us: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: "array[float]" = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)

    def add(self, sample: Sample, time_us: int) -> None:
        """Add a sample, to be shown with this time."""
        i = len(self.times_us)
        self.times_us.append(time_us)
        if isinstance(sample.value, str):
            self.texts[i] = sample.value
            self.numbers.append(0.0)
        else:
            self.numbers.append(sample.value)
        if sample.cumulative is not None or sample.metadata is not None:
            self.notes[i] = Note(sample.cumulative, sample.metadata)

    def read(self) -> Pieces:
        """Yield the samples in order of time."""
        order = sorted(range(len(self.times_us)), key=self.times_us.__getitem__)
        for start in range(0, len(order), _POINTS):
            some = order[start : start + _POINTS]
            yield Points(
                [self.times_us[i] for i in some],
                [self.texts[i] if i in self.texts else spell(self.numbers[i]) for i in some],
                {new: self.notes[old] for new, old in enumerate(some) if old in self.notes},
            )


def read_waiting(
    owner: str, metrics: Collection[str], last_ms: dict[SeriesKey, int]
) -> dict[SeriesKey, Waiting]:
    """Return what waits of these metrics, or of all: each with the time that it will have later.

    ``last_ms`` holds the newest millisecond that Prometheus has of each series.

    Raises:
        BehindError: it is too much to be read, or others read so much.
    """
    streams = waiting(owner)
    size = sum(stream.size - stream.delivered for stream in streams)
    if size <= BATCH_BYTES:
        return _read(streams, metrics, last_ms)
    if size > (_MOST_SEARCHED_BYTES if _can_search(metrics) else _MOST_READ_BYTES):
        raise _behind(owner, size, "more than can be read")
    if not _one_reader.acquire(timeout=_PATIENCE_SECONDS):
        raise _behind(owner, size, "and others are reading as much")
    try:
        return _read(streams, metrics, last_ms)
    finally:
        _one_reader.release()


def _read(
    streams: list[Stream], metrics: Collection[str], last_ms: dict[SeriesKey, int]
) -> dict[SeriesKey, Waiting]:
    now_us = time.time_ns() // 1000
    found: dict[SeriesKey, Waiting] = {}
    for stream, data in _wanted(streams, metrics):
        _add(found, stream, data, metrics, last_ms, now_us)
    return found


def _wanted(streams: list[Stream], metrics: Collection[str]) -> list[tuple[Stream, bytes]]:
    """Return the lines that are worth reading, batch by batch, before the first is read."""
    wanted = []
    size = 0
    for stream in streams:
        for batch in _batches(stream):
            data = _naming(batch, metrics) if _can_search(metrics) else batch
            wanted.append((stream, data))
            size += len(data)
            if size > _MOST_READ_BYTES:
                raise _behind(stream.owner, size, "more than can be read")
    return wanted


def _add(
    found: dict[SeriesKey, Waiting],
    stream: Stream,
    data: bytes,
    metrics: Collection[str],
    last_ms: dict[SeriesKey, int],
    now_us: int,
) -> None:
    """Add what a batch of lines says."""
    samples = (
        item
        for item in parse(stream, data, now_us)
        if isinstance(item, Sample) and (not metrics or item.metric in metrics)
    )
    planned = plan(samples, last_ms, now_us // 1000)
    for key, sent in planned.send.items():
        last_ms[key] = sent[-1].time_us // 1000
        for sample in sent:
            # Prometheus's times are milliseconds; those of posted samples are kept beside.
            finer = 0 if stream.name == POSTED else sample.time_us % 1000
            found.setdefault(key, Waiting()).add(sample, sample.time_us - finer)
    for sample in planned.keep:
        found.setdefault(sample[:2], Waiting()).add(sample, sample.time_us)


def _can_search(metrics: Collection[str]) -> bool:
    """Return whether the lines of these metrics can be told: what is no sample names nothing."""
    return bool(metrics) and MALFORMED not in metrics


def _naming(lines: bytes, metrics: Collection[str]) -> bytes:
    """Return the lines that may name one of the metrics: all others are not worth reading."""
    # What has a backslash may spell any character.
    plain = [re.escape(orjson.dumps(metric)[1:-1]) for metric in metrics]
    names = re.compile(b"|".join([rb"\\", *plain]))
    if not names.search(lines):
        return b""
    return b"".join(line for line in lines.splitlines(keepends=True) if names.search(line))


def _behind(owner: str, size: int, why: str) -> BehindError:
    return BehindError(
        f"{size:,} bytes of samples of {owner.replace('/', ' ')} wait for Prometheus, which is "
        f"behind, {why}: ask again later, or for fewer metrics; nothing is lost"
    )


def _batches(stream: Stream) -> Iterator[bytes]:
    """Yield the lines that wait in a stream, in the pieces in which they will be delivered."""
    position = stream.delivered
    while position < stream.size:
        end = position + BATCH_BYTES
        lines = read_lines(stream, position, end)
        if not lines and end <= stream.size:
            lines = read(stream, position, end)
        if not lines:
            return
        yield lines
        position += len(lines)
