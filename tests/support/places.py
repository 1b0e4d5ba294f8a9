"""Stored samples, read from Prometheus and the database without the code under test."""

import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cramjam
import httpx

from mlbench.contract.series import format_value
from mlbench_master.database.models import Block, Stream, run_owner
from mlbench_master.recording import blocks
from tests.support.rows import TimeSeries, write_request

HOUR_MS = 3600 * 1000


class Place(NamedTuple):
    """A stored sample. Prometheus's times have millisecond resolution."""

    metric: str
    rank: str
    time_us: int
    value: str


def write_labelled(
    url: str, *series: tuple[Mapping[str, str], list[tuple[int, float]]]
) -> httpx.Response:
    """Send series as labels and (milliseconds, value) in one remote write request."""
    message = write_request(TimeSeries(*entry) for entry in series).encode()
    return httpx.post(
        f"{url}/api/v1/write",
        content=bytes(cramjam.snappy.compress_raw(message)),
        headers={"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"},
    )


def in_prometheus(url: str, run_id: int) -> Counter[Place]:
    """Return a run's samples in Prometheus, from 27 hours ago to 3 hours ahead."""
    series = f'mlbench_run_metric{{run_id="{run_id}"}}[30h]'
    parameters = {"query": series, "time": f"{time.time() + 3 * 3600:.3f}"}
    answer = httpx.post(f"{url}/api/v1/query", data=parameters).json()
    assert answer["status"] == "success", answer
    return Counter(
        Place(labels["metric"], labels.get("rank", ""), round(seconds * 1000) * 1000, value)
        for labels, values in (
            (entry["metric"], entry["values"]) for entry in answer["data"]["result"]
        )
        for seconds, value in values
    )


def in_record(run_id: int, *, only: bool = False) -> Counter[Place]:
    """Return the samples in a run's blocks; with ``only``, those that Prometheus cannot hold."""
    places: Counter[Place] = Counter()
    for row in Block.select().where(Block.owner == run_owner(run_id)):
        samples = blocks.decode(bytes(row.data), row.samples)
        for i in (row.only_here or []) if only else range(row.samples):
            text = samples.notes[i].text if i in samples.notes else None
            rank = samples.rank_names[samples.ranks[i]]
            value = format_value(float(samples.values[i])) if text is None else text
            places[Place(row.metric, rank, int(samples.times_us[i]), value)] += 1
    return places


def nothing_waits() -> bool:
    """Return whether all samples are indexed and exported."""
    samples = Stream.name.in_(["metrics", "posted"])
    received = Stream.select().where(samples, Stream.indexed < Stream.size)
    return not (received.exists() or Block.select().where(Block.exported.is_null()).exists())


def assert_everywhere_once(url: str, run_id: int, recorded: Counter[Place]) -> None:
    """Check that the record has all samples, and Prometheus all those that it can hold."""
    assert in_record(run_id) == recorded
    expected = Counter(
        place._replace(time_us=place.time_us // 1000 * 1000)
        for place in (recorded - in_record(run_id, only=True)).elements()
    )
    assert in_prometheus(url, run_id) == expected


def decode(body: bytes) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """Decode an uncompressed WriteRequest into labels and (milliseconds, value)."""
    series = []
    for _, message in _fields(body):
        labels: dict[str, str] = {}
        samples: list[tuple[int, float]] = []
        for number, part in _fields(message):
            inner = dict(_fields(part))
            if number == 1:
                labels[inner[1].decode()] = inner[2].decode()
            else:
                ms = inner[2] - (1 << 64 if inner[2] >= 1 << 63 else 0)
                samples.append((ms, struct.unpack("<d", inner[1])[0]))
        series.append((labels, samples))
    return series


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: number, and an integer or bytes."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        assert kind in (1, 2), f"unexpected wire type: {kind}"
        length, at = (8, at) if kind == 1 else _read_varint(message, at)
        assert at + length <= len(message)
        yield number, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
