"""Series of runs are read from Prometheus while it has them all, and from the record otherwise."""

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlbench import archive
from mlbench.contract.series import format_value
from mlbench_master import reading
from mlbench_master.archives import contents
from mlbench_master.archives.sealing import Sealer
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.promql import PrometheusClient, QueryResult
from mlbench_master.reading.record import LiveRecord, SealedRecord
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording import blocks
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from tests.conftest import PrometheusServer
from tests.support.reading import StoredPoint, read, read_published, values
from tests.support.recording import Recording
from tests.support.rows import NO_ARCHIVES, line, make_run, post, record, reload, send, series

HOUR = 3600.0

Recorded = tuple[str, int, str]
"""The name of a series, a time in microseconds, and a value."""


class Listening(PrometheusClient):
    """Asks Prometheus, and notes how many samples each answer has."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.samples: list[int] = []

    def query(self, promql: str, time: float | None = None) -> list[QueryResult]:
        found = super().query(promql, time)
        self.samples.append(sum(len(one.values) for one in found))
        return found


@pytest.fixture
def listening(shared_prometheus: PrometheusServer) -> Iterator[Listening]:
    with closing(Listening(shared_prometheus.url)) as client:
        yield client


def random_value(dice: random.Random) -> Any:
    if dice.random() < 0.1:
        return dice.choice([math.nan, math.inf, -math.inf, 0, 1e-300, "a text", "1_000", ""])
    return dice.choice([dice.random(), dice.randrange(5)])


def random_lines(dice: random.Random, now: float, count: int) -> list[tuple[float, dict[str, Any]]]:
    """Return times and metrics of a rank whose clock jumps; many share a millisecond."""
    lines = []
    at = now - dice.uniform(0, 7200)
    for _ in range(count):
        at += dice.choice([0, 0.0001, 0.0004, 0.001, 0.37, dice.uniform(-5, 20)])
        foreign = dice.choice([-30 * HOUR, 3 * HOUR]) if dice.random() < 0.05 else 0
        metrics = dice.sample(["loss", "acc", "train_seconds", "note"], dice.randrange(1, 4))
        values = {metric: random_value(dice) for metric in metrics}
        lines.append((round(min(at, now) + foreign, 6), values | {"text": f"at {at}"}))
    return lines


def record_anything(dice: random.Random, run: Run, recording: Recording) -> Counter[Recorded]:
    """Record random samples of several ranks in pieces, between random steps of the recording."""
    recorded: Counter[Recorded] = Counter()

    def add(rank: int, lines: list[tuple[float, dict[str, Any]]]) -> None:
        record(run, b"".join(line(at, **metrics) for at, metrics in lines), rank)
        for at, metrics in lines:
            for metric, value in metrics.items():
                spelled = value if isinstance(value, str) else format_value(float(value))
                recorded[f"{metric} @ {rank}", round(at * 1e6), spelled] += 1

    now = round(time.time(), 3)
    for _ in range(dice.randrange(2, 12)):
        add(dice.randrange(3), random_lines(dice, now, dice.randrange(1, 40)))
        dice.choice([lambda: None, recording.index_all, recording.export_all, recording.run_all])()
    # The averages of a series depend on its order, so one has a value per millisecond.
    add(0, [(now - 60 + i / 8, {"smooth": dice.random()}) for i in range(100)])
    recording.run_all()
    return recorded


def by_millisecond(series: dict[str, list[StoredPoint]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return points with the time that Prometheus stores; in each, in order of their values."""
    return {
        name: sorted((point.time_us // 1000, point.value, repr(point.note)) for point in points)
        for name, points in series.items()
    }


@pytest.mark.both_databases
@pytest.mark.parametrize("seed", range(5))
def test_prometheus_and_the_record_answer_the_same(
    run: Run,
    reader: SeriesReader,
    recording: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    monkeypatch.setattr(blocks, "SMALL", dice.choice([1, 20, 512]))
    recorded = record_anything(dice, run, recording)
    whole = read(reader, run)
    points = [(name, point) for name, points in whole.items() for point in points]
    assert recorded == Counter((name, point.time_us, point.value) for name, point in points)
    path = tmp_path / "run.mlbench"
    archive.write(path, {}, contents.series_of_record(LiveRecord(run_owner(run.id))))
    now_ms = time.time_ns() // 1_000_000
    moments = [BEFORE_ALL_US, AFTER_ALL_US]
    # Just before a millisecond, whose samples differ by microseconds.
    moments += [(now_ms - dice.randrange(7_200_000)) * 1000 - 1 for _ in range(8)]
    selections = [Selection(), Selection(names=("smooth",), summarize=7)]
    selections += [
        Selection(*between(dice, moments), names=names)
        for names in ((), ("loss",), ("loss @ 1", "acc"), ("smooth @ 0", "absent"))
        for _ in range(3)
    ]
    selections += [Selection(names=("smooth",), last_n=n) for n in (1, 7, 1000)]
    with archive.opened(path) as opened:
        for selection in selections:
            expected = read(reader, run, selection)
            source, found = read_published(reader, run, selection)
            assert source == "prometheus"
            assert by_millisecond(found) == by_millisecond(expected)
            assert list(found) == list(expected)
            live = LiveRecord(run_owner(run.id), selection)
            assert read_record(SealedRecord(opened), selection) == read_record(live, selection)


def between(dice: random.Random, moments: Sequence[int]) -> tuple[int, int]:
    """Return two of these moments, the earlier one first."""
    first, last = sorted(dice.sample(moments, 2))
    return first, last


def read_record(opened: Any, selection: Selection) -> dict[str, Any]:
    """Return all that a record has of the selected metrics, however it is held."""
    among = selection.metrics
    return {
        f"{metric} @ {rank}": sorted(
            (at, str(value), str(series.notes.get(i)))
            for i, (at, value) in enumerate(zip(series.times_us, series.values, strict=True))
        )
        for metric in opened.metrics
        if not among or metric in among
        for rank, series in opened.read(metric, BEFORE_ALL_US, AFTER_ALL_US).items()
    }


def test_samples_wait_in_the_record(run: Run, reader: SeriesReader, recording: Recording) -> None:
    now = round(time.time(), 3)
    steps: Sequence[Callable[[], None]] = (lambda: None, recording.index_all)
    for i in range(3):
        record(run, line(now + i / 1000, a=i))
        for step in steps:
            step()
            source, series = read_published(reader, run)
            assert (source, values(series["a @ 0"])) == ("record", [*map(str, range(i + 1))])
        recording.export_all()
        source, series = read_published(reader, run)
        assert (source, values(series["a @ 0"])) == ("prometheus", [*map(str, range(i + 1))])
    record(run, line(now + 1, b=1))
    assert read_published(reader, run)[0] == "record"
    assert read_published(reader, run, Selection(names=("a",)))[0] == "prometheus"
    assert read_published(reader, run, Selection(names=("absent",))) == ("record", {})


def test_samples_posted_by_a_client_are_returned_unchanged(
    run: Run, reader: SeriesReader, recording: Recording, tmp_path: Path
) -> None:
    now_us = time.time_ns() // 1_000_000 * 1000 + 250
    record(run, line(now_us / 1e6 - 1, a=1, b=1))
    post(run_owner(run.id), [Sample("a", "", now_us, 2.0, True, {"k": "v"})])
    recording.run_all()
    sealing = SeriesReader(reader.prometheus, ArchiveStore(str(tmp_path)))
    for is_sealed in (False, True):
        if is_sealed:
            run = seal(run, sealing)
        source, series = read_published(sealing, run, Selection(names=("a",)))
        [posted] = series["a"]
        assert (source, posted.time_us, posted.note.metadata) == ("record", now_us, {"k": "v"})
        assert read_published(sealing, run, Selection(names=("b",)))[0] == "prometheus"


def seal(run: Run, reader: SeriesReader) -> Run:
    """Seal a run as an hour after its end, when its blocks are deleted."""
    ended = {"state": "FINISHED", "started_at": run.created_at, "finished_at": time.time()}
    Run.update(**ended).where(Run.id == run.id).execute()
    Sealer(reader).seal(reload(run))
    Run.update(blocks_deleted_at=time.time()).where(Run.id == run.id).execute()
    Block.delete().where(Block.owner == run_owner(run.id)).execute()
    return reload(run)


@pytest.mark.usefixtures("database")
def test_samples_that_prometheus_lost_are_read_from_the_record(
    own_prometheus: PrometheusServer,
) -> None:
    with (
        closing(RemoteWriter(own_prometheus.url)) as writer,
        closing(PrometheusClient(own_prometheus.url)) as prometheus,
    ):
        reader, recording = SeriesReader(prometheus, NO_ARCHIVES), Recording.to(writer)
        run = make_run()
        now = round(time.time(), 3)
        record(run, b"".join(line(now + i / 1000, a=i, note="x") for i in range(10)))
        recording.run_all()
        expected = read(reader, run)
        assert read_published(reader, run) == ("prometheus", expected)
        own_prometheus.lose_everything()
        assert read_published(reader, run) == ("record", expected)
        recording.exporter.send_again(run_owner(run.id))
        recording.export_all()
        assert read_published(reader, run) == ("prometheus", expected)
        own_prometheus.kill()
        assert read_published(reader, run) == ("record", expected)


def test_the_record_answers_where_prometheus_has_more(
    run: Run, reader: SeriesReader, recording: Recording, writer: RemoteWriter
) -> None:
    now = round(time.time(), 3)
    record(run, b"".join(line(now + i / 1000, a=i) for i in range(600)))
    recording.run_all()
    expected = read(reader, run)
    assert read_published(reader, run) == ("prometheus", expected)
    labels = {"run_id": str(run.id), "metric": "a", "rank": "0"}
    send(writer, series("mlbench_run_metric", [now - 1], [-1.0], **labels))
    assert read_published(reader, run) == ("record", expected)


def test_only_the_requested_metrics_are_queried(
    run: Run, recording: Recording, listening: Listening
) -> None:
    now = round(time.time(), 3) - 5
    for rank in (0, 1):
        steps = b"".join(line(now + i / 1000, loss=i) for i in range(1000))
        record(run, line(now, acc=1, train_seconds=1) + steps, rank=rank)
    recording.run_all()
    reader = SeriesReader(listening, NO_ARCHIVES)
    wanted = Selection(names=("acc", "train_seconds", "absent"))
    source, series = read_published(reader, run, wanted)
    assert source == "prometheus"
    assert sorted(series) == ["acc @ 0", "acc @ 1", "train_seconds @ 0", "train_seconds @ 1"]
    assert listening.samples == [4], "the samples of the wanted metrics"


def test_a_large_answer_is_read_from_the_record(
    run: Run, recording: Recording, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading.series, "_MAX_FROM_PROMETHEUS", 9)
    start = round(time.time(), 3) - 1
    record(run, b"".join(line(start + i / 1000, a=i) for i in range(9)) + line(start, b=1))
    recording.run_all()
    reader = SeriesReader(listening, NO_ARCHIVES)
    assert read_published(reader, run)[0] == "record"
    assert not listening.samples
    assert read_published(reader, run, Selection(names=("a",)))[0] == "prometheus"
