"""Export: Prometheus gets what it can hold of each block, however often it is interrupted."""

import math
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from peewee import Database

from mlbench.contract.limits import PAST_MS
from mlbench.contract.series import format_value
from mlbench_master.database.connection import exclusive
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import blocks, export
from mlbench_master.recording.export import Exporter
from mlbench_master.recording.remote_write import (
    FUTURE_MS,
    RemoteWriter,
    SamplesRefusedError,
    UnavailableError,
    WriteRequest,
)
from mlbench_master.recording.samples import Sample
from tests.conftest import PrometheusServer
from tests.support.killing import killed_at
from tests.support.places import Place, assert_everywhere_once, decode, in_record
from tests.support.recording import Patience, Recording
from tests.support.rows import line, make_run, record

NOW_MS = 1_763_683_200_000

Points = list[tuple[int, float]]


class Moody(RemoteWriter):
    """A Prometheus with scripted answers that refuses some values and takes the rest."""

    def __init__(self, *errors: Exception | None, refused: Sequence[float] = ()) -> None:
        super().__init__("http://127.0.0.1:9")
        self._errors = list(errors)
        self._refused = refused
        self.sent: list[tuple[dict[str, str], Points]] = []

    def send(self, request: WriteRequest) -> None:
        if self._errors and (error := self._errors.pop(0)):
            raise error
        sent = decode(request.encode())
        if any(value in self._refused for _, points in sent for _, value in points):
            raise SamplesRefusedError("refused")
        self.sent += sent

    def points(self, metric: str = "a", rank: str = "0") -> Points:
        """Return what was sent of a series."""
        key = {"metric": metric, "rank": rank}.items()
        return [point for ls, points in self.sent if key <= ls.items() for point in points]


def runs_of(writer: Moody) -> list[int]:
    """Return the run of each series that was sent, in order."""
    return [int(labels["run_id"]) for labels, _ in writer.sent]


# --- What is sent. ---


def sample(ms: float, value: float | str = 1.0, metric: str = "a", rank: str = "0") -> Sample:
    return Sample(metric, rank, round(ms * 1000), value)


@pytest.fixture
def at_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the exporter is at NOW_MS."""
    clock = SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(export, "time", clock)


def add(run: Run, *samples: Sample) -> None:
    """Write samples as blocks."""
    with exclusive(run_owner(run.id)):
        blocks.add(run_owner(run.id), samples, is_posted=False)


def export_all(run: Run, *batches: Sequence[Sample], refused: Sequence[float] = ()) -> Moody:
    """Export batches one after another, and return the writer."""
    writer = Moody(refused=refused)
    exporter = Exporter(writer)
    for batch in batches:
        add(run, *batch)
        exporter.export_waiting()
    writer.close()
    return writer


def only_here(run: Run) -> list[Place]:
    """Return what is marked as in the record only, sorted."""
    return sorted(in_record(run.id, only=True).elements())


def places(*samples: Sample) -> list[Place]:
    return sorted(Place(*each[:3], format_value(each.value)) for each in samples)


pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.usefixtures("at_now")
def test_samples_are_sent_by_series_in_order_of_time(run: Run) -> None:
    unordered = [sample(NOW_MS), sample(NOW_MS - 5, 2.0), sample(NOW_MS - 2, 3.0)]
    others = [sample(NOW_MS, 4.0, "b"), sample(NOW_MS, 5.0, rank="1"), sample(NOW_MS, 6.0, rank="")]
    writer = export_all(run, [*unordered, *others])
    assert only_here(run) == []
    assert writer.points() == [(NOW_MS - 5, 2.0), (NOW_MS - 2, 3.0), (NOW_MS, 1.0)]
    assert writer.points("b") == [(NOW_MS, 4.0)]
    assert writer.points(rank="1") == [(NOW_MS, 5.0)]
    assert [points for labels, points in writer.sent if "rank" not in labels] == [[(NOW_MS, 6.0)]]


@pytest.mark.usefixtures("at_now")
@pytest.mark.parametrize("is_together", [False, True])
def test_the_first_sample_of_a_millisecond_is_sent(run: Run, is_together: bool) -> None:
    first, second = sample(NOW_MS + 0.5, 1.0), sample(NOW_MS + 0.1, 2.0)
    other_rank, later = sample(NOW_MS + 0.1, 3.0, rank="1"), sample(NOW_MS + 1, math.nan)
    samples = [first, second, other_rank, later]
    writer = export_all(run, *([samples] if is_together else ([each] for each in samples)))
    assert only_here(run) == places(second)
    assert writer.points()[0] == (NOW_MS, 1.0)
    assert writer.points()[1][0] == NOW_MS + 1
    assert writer.points(rank="1") == [(NOW_MS, 3.0)]


@pytest.mark.usefixtures("at_now")
def test_a_sample_before_the_newest_one_that_was_sent_is_not_sent(run: Run) -> None:
    earlier = sample(NOW_MS - 5, 2.0)
    writer = export_all(run, [sample(NOW_MS)], [earlier, sample(NOW_MS - 5, 3.0, rank="1")])
    assert only_here(run) == places(earlier)
    assert writer.points(rank="1") == [(NOW_MS - 5, 3.0)]


@pytest.mark.usefixtures("at_now")
def test_texts_are_not_sent_and_do_not_count_as_the_newest(run: Run) -> None:
    text = sample(NOW_MS + 5, "best")
    writer = export_all(run, [text], [sample(NOW_MS)])
    assert only_here(run) == places(text)
    assert writer.points() == [(NOW_MS, 1.0)]


@pytest.mark.usefixtures("at_now")
def test_a_new_controller_continues_the_export(run: Run) -> None:
    text, future = sample(NOW_MS + 8, "best"), sample(NOW_MS + 2 * FUTURE_MS)
    export_all(run, [sample(NOW_MS + 5), text, future])
    # It has the same value, so Prometheus would not refuse it.
    second = sample(NOW_MS + 5.5)
    writer = export_all(run, [second, sample(NOW_MS + 6)])
    assert only_here(run) == places(text, future, second)
    assert writer.points() == [(NOW_MS + 6, 1.0)]


@pytest.mark.usefixtures("at_now")
def test_the_far_past_and_the_future_are_not_sent(run: Run) -> None:
    first_ms, last_ms = NOW_MS - PAST_MS, NOW_MS + FUTURE_MS
    foreign = [sample(first_ms - 1), sample(last_ms + 1), sample(-62_135_596_800_000), sample(-1)]
    writer = export_all(run, [*foreign, sample(first_ms), sample(last_ms)])
    assert only_here(run) == places(*foreign)
    assert [ms for ms, _ in writer.points()] == [first_ms, last_ms]


def test_samples_are_sent_within_the_window_of_prometheus() -> None:
    config = (Path(__file__).parents[3] / "prometheus" / "prometheus.yml").read_text()
    [hours] = re.findall(r"^ *out_of_order_time_window: (\d+)h$", config, re.MULTILINE)
    assert (int(hours) - 1) * 3600 * 1000 >= PAST_MS


@pytest.mark.usefixtures("at_now")
def test_refused_samples_stay_in_the_record_only(run: Run) -> None:
    numbers = [sample(NOW_MS + i, float(i)) for i in range(8)]
    text = sample(NOW_MS, "text")
    others = [sample(NOW_MS + i, float(i), "b", "1") for i in range(8)]
    writer = export_all(run, [text, *numbers, *others], refused=(0.0, 5.0))
    refused = [each for each in (*numbers, *others) if each.value in (0.0, 5.0)]
    assert only_here(run) == places(text, *refused)
    expected = [(NOW_MS + i, float(i)) for i in (1, 2, 3, 4, 6, 7)]
    assert sorted(writer.points()) == sorted(writer.points("b", "1")) == expected


# --- When it is sent. ---


def test_the_exporter_waits_ever_longer_for_an_absent_prometheus(run: Run) -> None:
    writer = Moody(None, *[UnavailableError("away")] * 8)
    recording, stop = Recording.to(writer), Patience(times=11)
    record(run, line(time.time(), a=1))
    recording.run_all()
    record(run, line(time.time() + 1, a=2))
    recording.index_all()
    recoveries: list[int] = []
    recording.exporter.run(stop, stop, lambda: recoveries.append(len(writer.sent)), 0.1)
    assert recoveries == [2], "once Prometheus is back, runs are counted"
    assert stop.waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 0.1, 0.1, 0.1])
    assert len(writer.sent) == 2
    writer.close()


def test_the_active_run_does_not_wait_for_others() -> None:
    """Nor do the others wait for it while Prometheus gives no answer for its samples."""
    ended = [make_run(state="FINISHED") for _ in range(3)]
    active = make_run()
    for run in (*ended, active):
        record(run, line(time.time(), a=1))
    writer = Moody(UnavailableError("silent"))
    recording = Recording.to(writer)
    with pytest.raises(UnavailableError):
        recording.run_all()
    recording.export_all()
    ended.sort(key=lambda run: run_owner(run.id))
    assert runs_of(writer) == [*(run.id for run in ended), active.id]
    for run in (ended[0], active):
        record(run, line(time.time() + 1, a=1))
    recording.run_all()
    assert runs_of(writer)[4:] == [active.id, ended[0].id]
    writer.close()


@pytest.mark.parametrize("most", [{"_BATCH_SAMPLES": 7}, {"_BATCH_BLOCKS": 2}])
def test_many_batches_send_each_sample_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, most: dict[str, int]
) -> None:
    for name, number in most.items():
        monkeypatch.setattr(export, name, number)
    now_ms = time.time_ns() // 1_000_000
    for i in range(10):
        for metric in "ab":
            add(run, *(sample(now_ms + 3 * i + n, float(n), metric) for n in range(3)))
    writer = Moody()
    exporter, batches = Exporter(writer), 1
    while exporter.export_waiting():
        batches += 1
    assert batches > 5
    for metric in "ab":
        expected = [(now_ms + 3 * i + n, float(n)) for i in range(10) for n in range(3)]
        assert writer.points(metric) == expected
    assert not Block.select().where(Block.exported.is_null()).exists()
    writer.close()


# --- To the real Prometheus. ---


@pytest.mark.both_databases
def test_each_sample_is_exported_once_even_if_the_controller_is_killed(
    run: Run,
    recording: Recording,
    prometheus: PrometheusClient,
    shared_prometheus: PrometheusServer,
) -> None:
    start = float(round(time.time()) - 5)
    record(run, b"".join(line(start + i / 2000, a=i, text="x") for i in range(50)))
    recording.index_all()
    recorded = in_record(run.id)
    for step in ("export.store_exported", "remote_write.RemoteWriter.send_all"):
        with killed_at(f"mlbench_master.recording.{step}"):
            recording.export_all()
        assert Block.select().where(Block.exported.is_null()).count() == Block.select().count() > 0
        record(run, line(time.time(), a=1))
        with killed_at("mlbench_master.recording.export.store_exported"):
            recording.run_all()
        recorded = in_record(run.id)
    # Another controller continues.
    Recording.to(recording.exporter._writer).export_all()
    assert_everywhere_once(shared_prometheus.url, run.id, recorded)
    assert count(prometheus, run) == SampleCounts(102, 27, 75)


@pytest.mark.both_databases
def test_two_controllers_export_once(run: Run, recording: Recording) -> None:
    """One is about to end, the other has begun, and both have looked at the same time."""
    now_ms = time.time_ns() // 1_000_000
    add(run, sample(now_ms, 1.0), sample(now_ms, "text"))
    [row] = Block.select()
    samples = blocks.decode(bytes(row.data), row.samples)
    seen = blocks.Block(row.id, row.metric, samples)
    for here in ([1], [0, 1]):
        with exclusive(run_owner(run.id)):
            blocks.store_exported([(seen, here)])
        [row] = Block.select()
        assert (row.samples, row.exported, row.only_here) == (2, 1, [1])


def test_all_are_sent_again_though_a_batch_is_being_sent(run: Run, database: Database) -> None:
    now_ms = time.time_ns() // 1_000_000
    resetting: list[threading.Thread] = []

    def send_again() -> None:
        with database.connection_context():  # this thread's connection
            exporter.send_again(run_owner(run.id))

    class Interrupted(Moody):
        def send(self, request: WriteRequest) -> None:
            super().send(request)
            if len(self.sent) == 2:
                resetting.append(threading.Thread(target=send_again))
                resetting[0].start()
                time.sleep(0.2)

    writer = Interrupted()
    exporter = Exporter(writer)
    for i in range(2):
        add(run, *(sample(now_ms + 1000 * i + n, float(n)) for n in range(600)))
        exporter.export_waiting()
    resetting[0].join()
    exporter.export_waiting()
    assert only_here(run) == []
    assert not Block.select().where(Block.exported.is_null()).exists()
    assert writer.points() == 2 * writer.points()[:1200]
    writer.close()
