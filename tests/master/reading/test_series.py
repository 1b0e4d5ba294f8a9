"""Reading merges Prometheus, what waits and what is kept: each sample once, in order of time."""

import math
import time
from collections.abc import Sequence

import pytest

from mlbench_master.database.models import Run, run_owner
from mlbench_master.reading import delivered, stored, windows
from mlbench_master.reading.points import StoredPoint
from mlbench_master.reading.promql import PrometheusClient, PrometheusError, QueryResult
from mlbench_master.reading.selection import NamedSeries, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.samples import Sample
from mlbench_master.runs import lifecycle
from tests.conftest import PrometheusServer
from tests.support.killing import killed_at
from tests.support.rows import NO_ARCHIVES, deliver_all, line, post, record

pytestmark = pytest.mark.both_databases

ALL = Selection()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything read as what is large is read: in windows of time, and in pages of rows."""
    monkeypatch.setattr(delivered, "_AT_ONCE", 0)
    monkeypatch.setattr(delivered, "_TOGETHER", 0)
    monkeypatch.setattr(windows, "PIECE", 7)
    monkeypatch.setattr(stored, "_ROWS", 5)


@pytest.fixture(params=["at once", "in groups", "in pieces"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways of reading."""
    if request.param != "at once":
        request.getfixturevalue("small_pieces")
    if request.param == "in groups":
        monkeypatch.setattr(delivered, "_TOGETHER", 5)


class Listening(PrometheusClient):
    """Asks Prometheus, and notes how many samples each answer has."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.samples: list[int] = []

    def query(self, promql: str, time: float | None = None) -> list[QueryResult]:
        found = super().query(promql, time)
        self.samples.append(sum(len(one.values) for one in found))
        return found


def to_dict(series: NamedSeries) -> dict[str, list[StoredPoint]]:
    return {name: [point for chunk in chunks for point in chunk] for name, chunks in series}


def read(
    reader: SeriesReader, run: Run, selection: Selection = ALL
) -> dict[str, list[StoredPoint]]:
    return to_dict(reader.run(run.id, selection))


def values(points: Sequence[StoredPoint]) -> list[str]:
    return [point.value for point in points]


@pytest.mark.usefixtures("way")
def test_the_same_is_read_before_and_after_delivery(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    now_ms = time.time_ns() // 1_000_000
    at = now_ms / 1000
    record(
        run,
        line(at, a=1, b=math.nan)
        + line(at, a=1)  # the same once more, in the same millisecond
        + line(at + 0.001, a=math.inf, note="text")
        + line(at - 1, a=1e-7)
        + line(at + 1, a=2)
        + b'{"time":%.3f,"ran' % (at + 0.002),
    )
    record(run, b'k":1,"metrics":{"a":9}}\n')
    record(run, line(at, **{"a": 7, "x @ 0": 3}), rank=1)
    expected = {
        "a @ 0": [
            StoredPoint((now_ms - 1000) * 1000, "1e-07"),
            StoredPoint(now_ms * 1000, "1"),
            StoredPoint(now_ms * 1000, "1"),
            StoredPoint((now_ms + 1) * 1000, "+Inf"),
            StoredPoint((now_ms + 1000) * 1000, "2"),
        ],
        "a @ 1": [StoredPoint(now_ms * 1000, "7"), StoredPoint((now_ms + 2) * 1000, "9")],
        "b @ 0": [StoredPoint(now_ms * 1000, "NaN")],
        "note @ 0": [StoredPoint((now_ms + 1) * 1000, "text")],
        "x @ 0 @ 1": [StoredPoint(now_ms * 1000, "3")],
    }
    assert read(reader, run) == expected
    assert list(read(reader, run)) == sorted(expected)
    alone = {(name,): {name: points} for name, points in expected.items()}
    alone["x @ 0",] = alone["x @ 0 @ 1",]
    assert {names: read(reader, run, Selection(names=names)) for names in alone} == alone
    assert delivery.deliver_waiting()
    assert {names: read(reader, run, Selection(names=names)) for names in alone} == alone
    assert read(reader, run) == expected


@pytest.mark.usefixtures("way")
def test_samples_that_were_sent_but_not_committed_are_read_once(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    now = round(time.time(), 3)
    record(run, line(now, a=1, b=math.nan))
    delivery.deliver_waiting()
    record(run, line(now + 0.001, a=1, b=math.nan) + line(now + 0.001, a=1))
    with killed_at("mlbench_master.recording.delivery.advance"):
        delivery.deliver_waiting()
    for _ in range(2):
        series = read(reader, run)
        assert values(series["a @ 0"]) == ["1", "1", "1"]
        assert values(series["b @ 0"]) == ["NaN", "NaN"]
        delivery.deliver_waiting()


@pytest.mark.usefixtures("way")
def test_what_is_delivered_while_prometheus_is_asked_is_read_once(
    run: Run,
    reader: SeriesReader,
    prometheus: PrometheusClient,
    delivery: SampleDelivery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = round(time.time(), 3)
    record(run, line(now, a=1))
    delivery.deliver_waiting()
    record(run, line(now + 0.001, a=2))
    ask = prometheus.query

    def deliver_and_ask(promql: str, time: float | None = None) -> list[QueryResult]:
        delivery.deliver_waiting()
        return ask(promql, time)

    monkeypatch.setattr(prometheus, "query", deliver_and_ask)
    for _ in range(2):
        assert values(read(reader, run)["a @ 0"]) == ["1", "2"]


@pytest.mark.usefixtures("way")
def test_since_leaves_out_what_is_not_newer(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    record(run, b"".join(line((start_ms + i) / 1000, a=i) for i in range(10)))
    record(run, line((start_ms + 3) / 1000, text="3") + line((start_ms + 4) / 1000, text="4"))
    for _ in range(2):
        series = read(reader, run, Selection(after_us=(start_ms + 3) * 1000))
        assert values(series["a @ 0"]) == [str(i) for i in range(4, 10)]
        assert values(series["text @ 0"]) == ["4"]
        nearly = read(reader, run, Selection(after_us=(start_ms + 3) * 1000 - 1))
        assert values(nearly["a @ 0"])[0] == "3"
        assert read(reader, run, Selection(after_us=(start_ms + 9) * 1000)) == {}
        assert read(reader, run, Selection(after_us=253_402_300_799_000_000)) == {}
        assert len(read(reader, run, Selection(after_us=-62_135_596_800_000_000))["a @ 0"]) == 10
        delivery.deliver_waiting()


def test_only_the_metrics_that_are_wanted_are_asked_for(
    run: Run, delivery: SampleDelivery, shared_prometheus: PrometheusServer
) -> None:
    now = round(time.time(), 3) - 5
    for rank in (0, 1):
        steps = b"".join(line(now + i / 1000, loss=i) for i in range(1000))
        record(run, line(now, acc=1, train_seconds=1) + steps, rank=rank)
    delivery.deliver_waiting()
    heard = Listening(shared_prometheus.url)
    wanted = Selection(names=("acc", "train_seconds", "absent"))
    series = to_dict(SeriesReader(heard, NO_ARCHIVES).run(run.id, wanted))
    heard.close()
    assert sorted(series) == ["acc @ 0", "acc @ 1", "train_seconds @ 0", "train_seconds @ 1"]
    assert heard.samples == [4], "all in one query, and nothing else"


def steps(start_ms: int, first: int, last: int) -> bytes:
    """Return lines with numbers, two in each millisecond, and texts."""
    return b"".join(
        line((start_ms + i * 5 + j / 2) / 1000, a=2 * i + j, note=str(2 * i + j))
        for i in range(first, last)
        for j in (0, 1)
    )


@pytest.mark.usefixtures("small_pieces")
def test_a_delivery_meanwhile_does_not_change_an_answer(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    record(run, steps(start_ms, 0, 20))
    post(run_owner(run.id), [Sample("a", "0", start_ms * 1000 - 7, 0.5, True, "first")])
    delivery.deliver_waiting()
    record(run, steps(start_ms, 20, 40))
    expected = read(reader, run)
    assert [len(points) for points in expected.values()] == [81, 80]
    assert sorted(values(expected["a @ 0"])) == sorted(["0.5", *map(str, range(80))])
    series: dict[str, list[StoredPoint]] = {}
    for name, chunks in reader.run(run.id, ALL):
        for n, chunk in enumerate(chunks):
            series.setdefault(name, []).extend(chunk)
            if n == 1:
                delivery.deliver_waiting()
                record(run, steps(start_ms, 40, 41))
    assert series == expected


@pytest.mark.usefixtures("small_pieces")
def test_any_number_of_the_last_points_whatever_holds_them(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    record(run, steps(start_ms, 0, 10) + line(start_ms / 1000 - 7200, a=-1))
    record(run, line(start_ms / 1000 - 3600, a=-2), rank=1)
    delivery.deliver_waiting()
    record(run, steps(start_ms, 10, 12))
    whole = read(reader, run)
    for n in (1, 2, 3, 8, 20, 24, 25, 26, 10**17):
        assert read(reader, run, Selection(last_n=n)) == {
            name: points[-n:] for name, points in whole.items()
        }


@pytest.mark.usefixtures("way")
def test_series_of_one_name_are_read_as_one(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    now = round(time.time(), 3)
    record(run, line(now, a=1) + line(now + 2, a=3))
    same = Sample("a @ 0", "", round((now + 1) * 1e6), 2.0)
    post(run_owner(run.id), [same])
    for _ in range(2):
        assert [name for name, _ in reader.run(run.id, ALL)] == ["a @ 0"]
        assert values(read(reader, run)["a @ 0"]) == ["1", "2", "3"]
        delivery.deliver_waiting()


@pytest.mark.usefixtures("way")
def test_a_run_that_is_deleted_meanwhile_is_an_error_and_no_gap(
    run: Run, reader: SeriesReader, delivery: SampleDelivery
) -> None:
    record(run, line(time.time(), a=1, b=2))
    delivery.deliver_waiting()
    series = reader.run(run.id, ALL)
    next(series)
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    lifecycle.delete(run)
    with pytest.raises(PrometheusError, match="deleted"):
        to_dict(series)


def test_prometheus_averages_what_is_much(
    run: Run, reader: SeriesReader, delivery: SampleDelivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = round(time.time(), 3)
    wanted = Selection(names=("a",), summarize=10)
    for rank in (0, 1):
        record(run, b"".join(line(now - 8 + i / 10, a=i + rank) for i in range(75)), rank)
    deliver_all(delivery)
    for rank in (0, 1):
        record(run, line(now - 0.2, a=99) + line(now - 0.1, a=100), rank)
    few = read(reader, run, wanted)
    monkeypatch.setattr(delivered, "_TOGETHER", 100)
    monkeypatch.setattr(delivered, "_MANY", 1)
    much = read(reader, run, wanted)
    for rank in (0, 1):
        assert len(few[f"a @ {rank}"]) == 10
        *averages, last, newest = much[f"a @ {rank}"]
        assert [last.value, newest.value] == ["99", "100"]
        assert len(averages) == 7
        assert float(averages[3].value) == pytest.approx(37 + rank, abs=1)
        ends = [(point.note.minimum, point.note.maximum) for point in (averages[0], averages[-1])]
        assert (ends[0][0], ends[1][1]) == (str(rank), str(74 + rank))
    # Even where so much waits that they are averaged again.
    again = read(reader, run, Selection(names=("a",), summarize=4))["a @ 1"]
    assert [again[0].note.minimum, again[1].note.maximum, again[2].value] == ["1", "99", "100"]
