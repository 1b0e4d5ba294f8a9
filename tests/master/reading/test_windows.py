"""The real Prometheus is read in windows that miss nothing, double nothing and hold few samples."""

import time
import uuid

import pytest

from mlbench_master.reading import windows
from mlbench_master.reading.points import to_points
from mlbench_master.reading.promql import PrometheusClient, select
from mlbench_master.reading.windows import Span
from mlbench_master.recording.remote_write import RemoteWriter
from tests.support.reading import StoredPoint, points_of
from tests.support.rows import TimeSeries, send

NOW_MS = time.time_ns() // 1_000_000
PIECE = 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "PIECE", PIECE)


def labels() -> dict[str, str]:
    return {"__name__": "windowed", "case": str(uuid.uuid4())}


# A long pause, bursts, single samples, and every millisecond of a while.
UNEVEN = [-20_000_000, *range(-19_000_000, -18_999_975), -5_000_000, -4_999_990, -60_000]
UNEVEN += [*range(-50_000, -20_000, 500), *range(-1_000, -900), -1, 0]


@pytest.mark.parametrize(
    "offsets",
    [
        [0],
        [-1, 0],
        list(range(-PIECE + 1, 1)),
        list(range(-PIECE, 1)),
        list(range(-2_000, 1)),
        list(range(-7_200_000, 1, 60_000)),
        UNEVEN,
    ],
)
def test_every_sample_once_and_few_at_a_time(
    writer: RemoteWriter, prometheus: PrometheusClient, offsets: list[int]
) -> None:
    series = labels()
    send(writer, TimeSeries(series, [(NOW_MS + ms, float(i)) for i, ms in enumerate(offsets)]))
    first, last = NOW_MS + offsets[0], NOW_MS + offsets[-1]
    found = windows.read(prometheus, select(series), Span(first, last))
    chunks = [to_points(part) for part in found]
    times_us = [(NOW_MS + ms) * 1000 for ms in offsets]
    assert points_of(chunks) == [StoredPoint(at, str(i)) for i, at in enumerate(times_us)]
    assert max(len(chunk) for chunk in chunks) <= PIECE
    # Neighbouring windows share one where they can.
    assert len(chunks) <= 2 * len(offsets) // PIECE + 5


def test_a_span_ends_where_it_says(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    series = labels()
    send(writer, TimeSeries(series, [(NOW_MS - ms, float(ms)) for ms in range(40, -1, -1)]))
    for first, last in ((30, 5), (30, 30), (7, 7), (40, 0)):
        found = windows.read(prometheus, select(series), Span(NOW_MS - first, NOW_MS - last))
        values = [value for part in found for value in to_points(part).values]
        assert values == [str(ms) for ms in range(first, last - 1, -1)]
    before = windows.read(prometheus, select(series), Span(NOW_MS - 90, NOW_MS - 41))
    assert not any(len(part.times_us) for part in before)
