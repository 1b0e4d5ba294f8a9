"""The real Prometheus is read in windows that miss nothing, double nothing and hold few samples."""

import time
import uuid
from collections import defaultdict

import pytest

from mlbench_master.reading import windows
from mlbench_master.reading.points import StoredPoint
from mlbench_master.reading.promql import PrometheusClient, QueryResult, select
from mlbench_master.reading.windows import Span
from mlbench_master.recording.remote_write import RemoteWriter
from tests.support.rows import time_series

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
    writer.send([time_series(series, [(NOW_MS + ms, float(i)) for i, ms in enumerate(offsets)])])
    first, last = NOW_MS + offsets[0], NOW_MS + offsets[-1]
    chunks = list(windows.read(prometheus, select(series), Span(first, last)))
    assert [point for chunk in chunks for point in chunk] == [
        StoredPoint((NOW_MS + ms) * 1000, str(i)) for i, ms in enumerate(offsets)
    ]
    assert max(len(chunk) for chunk in chunks) <= PIECE
    # Neighbouring windows share one where they can.
    assert len(chunks) <= 2 * len(offsets) // PIECE + 5


def test_a_span_ends_where_it_says(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    series = labels()
    writer.send([time_series(series, [(NOW_MS - ms, float(ms)) for ms in range(40, -1, -1)])])
    for first, last in ((30, 5), (30, 30), (7, 7), (40, 0)):
        chunks = windows.read(prometheus, select(series), Span(NOW_MS - first, NOW_MS - last))
        values = [point.value for chunk in chunks for point in chunk]
        assert values == [str(ms) for ms in range(first, last - 1, -1)]
    assert not list(windows.read(prometheus, select(series), Span(NOW_MS - 90, NOW_MS - 41)))


def test_averages_stand_for_all_samples_of_their_part(
    writer: RemoteWriter, prometheus: PrometheusClient
) -> None:
    # No sample where two parts meet, of which up to Prometheus 2 both have it.
    offsets, most, step = [*range(0, 6_000, 30), *range(7_500, 9_001, 90)], 7, 1_286
    case, parts = labels(), defaultdict[tuple[str, int], list[float]](list)
    for rank in ("1", "2"):
        points = [(NOW_MS + ms, float(rank) + ms % 7) for ms in offsets]
        writer.send([time_series(case | {"metric": "a", "rank": rank}, points)])
        for ms, value in points:
            parts[rank, (ms - NOW_MS) // step].append(value)
    span = Span(NOW_MS, NOW_MS + 9_000)
    by_series = windows.averages(prometheus, select(case), span, most)
    averages = {
        (rank, (point.time_us // 1000 - NOW_MS) / step): point
        for (_, rank), points in by_series.items()
        for point in points
    }
    assert averages.keys() == parts.keys()
    for key, part in parts.items():
        assert float(averages[key].value) == pytest.approx(sum(part) / len(part))
        extremes = f"{min(part):g}", f"{max(part):g}"
        assert (averages[key].note.minimum, averages[key].note.maximum) == extremes


def test_samples_that_come_between_the_questions_shift_nothing(
    writer: RemoteWriter, prometheus: PrometheusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, ask = labels() | {"metric": "a", "rank": "0"}, prometheus.query_range
    writer.send([time_series(case, [(NOW_MS, 1.0), (NOW_MS + 1, 2.0), (NOW_MS + 2_000, 9.0)])])

    def ask_and_send(promql: str, first_ms: int, last_ms: int, step_ms: int) -> list[QueryResult]:
        answer = ask(promql, first_ms, last_ms, step_ms)
        writer.send([time_series(case, [(NOW_MS + 1_500, 7.0), (NOW_MS + 2_600, 8.0)])])
        return answer

    monkeypatch.setattr(prometheus, "query_range", ask_and_send)
    [points] = windows.averages(prometheus, select(case), Span(NOW_MS, NOW_MS + 2_999), 3).values()
    ends = [(point.value, point.note.minimum, point.note.maximum) for point in points]
    assert ends == [("1.5", "1", "2"), ("9", "8", "9")]
