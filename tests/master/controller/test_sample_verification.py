"""Counting a run, at its end and later: what Prometheus lost is delivered again, a few times."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from peewee import Database, fn

from mlbench_master.archives.sealing import Sealer
from mlbench_master.controller import sample_verification
from mlbench_master.controller.sample_verification import KEPT_SECONDS, SampleVerifier
from mlbench_master.database.models import Chunk, DeletedRun, Run, Series, Stream, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient, PrometheusError
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.limits import waiting_bytes
from mlbench_master.recording.remote_write import RemoteWriter, UnavailableError
from mlbench_master.recording.samples import Sample
from mlbench_master.runs import deletion, lifecycle
from tests.conftest import PrometheusServer, wait_for
from tests.support.killing import killed_at
from tests.support.places import write_labelled
from tests.support.rows import deliver_all, line, make_run, post, record, reload

# What the samples of `recorded` count as.
WHOLE = SampleCounts(recorded=9, in_prometheus=7, in_database=2)
# And those of `Master.make_ended`.
ENDED = SampleCounts(recorded=21, in_prometheus=20, in_database=1)


class Master:
    """What the controller does with samples, a step at a time."""

    def __init__(self, server: PrometheusServer, archives: ArchiveStore) -> None:
        self.server = server
        self.writer, self.prometheus = RemoteWriter(server.url), PrometheusClient(server.url)
        self.delivery = SampleDelivery(self.writer)
        self.verifier = SampleVerifier(self.prometheus, self.delivery, look_seconds=0.0)
        self.reader = SeriesReader(self.prometheus, archives)
        self.sealer = Sealer(self.reader)

    def make_ended(self, state: str = "FINISHED") -> Run:
        """Store a run that has ended just now, and deliver and count it."""
        run = make_run(state=state, finished_at=time.time())
        record(run, b"".join(line(time.time() - 1 + i / 1000, a=i) for i in range(20)))
        record(run, line(time.time(), text="kept"))
        deliver_all(self.delivery)
        self.verifier.turn()
        assert reload(run).delivery == asdict(ENDED)
        self.sealer.turn()
        return run

    def values(self, run: Run) -> int:
        series = self.reader.run(run.id, Selection())
        return sum(len(points) for _, pieces in series for points in pieces)


@pytest.fixture
def master(
    own_prometheus: PrometheusServer, database: Database, tmp_path: Path
) -> Iterator[Master]:
    found = Master(own_prometheus, ArchiveStore(str(tmp_path / "archive")))
    yield found
    found.writer.close()
    found.prometheus.close()


@pytest.fixture
def verifier(master: Master) -> SampleVerifier:
    return master.verifier


@pytest.fixture
def recorded(run: Run, verifier: SampleVerifier) -> Run:
    """A run with samples of all kinds, which have all been delivered."""
    now = round(time.time(), 3)
    for rank in (0, 1):
        record(run, b"".join(line(now + i / 1000, a=i) for i in range(3)), rank)
    record(run, line(now, text="kept"))
    post(run_owner(run.id), [Sample("b", "", int(now * 1e6), 1.0), Sample("b", "", 1, 2.0)])
    deliver_all(verifier.delivery)
    return run


def redeliveries(run: Run) -> int:
    return int(reload(run).redeliveries)


@pytest.mark.parametrize(
    ("hours", "again"), [(-21.9, True), (-22.1, False), (0.016, True), (0.018, False)]
)
def test_samples_that_would_be_kept_instead_are_not_delivered_again(
    recorded: Run,
    verifier: SampleVerifier,
    own_prometheus: PrometheusServer,
    hours: float,
    again: bool,
) -> None:
    """As it is too old by now, or in the future by a clock that was set back."""
    moved_ms = round(hours * 3600_000)
    for field in (Series.first_ms, Series.last_ms):
        Series.update({field: field + moved_ms}).execute()
    own_prometheus.lose_everything()
    counts = verifier.count(reload(recorded))
    assert counts == (None if again else SampleCounts(9, 0, 2))
    assert redeliveries(recorded) == int(again)


def test_what_is_lost_of_an_active_run_is_delivered_again_also_if_lost_half_way(
    recorded: Run,
    verifier: SampleVerifier,
    own_prometheus: PrometheusServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mlbench_master.recording.delivery.BATCH_BYTES", 100)
    for _ in range(2):
        own_prometheus.lose_everything()
        verifier.turn()
        assert redeliveries(recorded) == 1, "it counts for each start of Prometheus"
        assert verifier.delivery.deliver_waiting()
        assert waiting_bytes(), "all of it was in one batch"
    deliver_all(verifier.delivery)
    assert verifier.count(reload(recorded)) == WHOLE


def test_more_than_was_recorded_is_no_loss(
    recorded: Run, verifier: SampleVerifier, own_prometheus: PrometheusServer
) -> None:
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(recorded.id), "metric": "extra"}
    newest = Series.select(fn.MAX(Series.last_ms)).scalar()
    assert write_labelled(own_prometheus.url, (foreign, [(newest, 1.0)])).status_code == 204
    assert verifier.count(reload(recorded)) == SampleCounts(9, 8, 2)
    assert redeliveries(recorded) == 0


def test_nothing_is_counted_while_prometheus_is_away(
    recorded: Run, verifier: SampleVerifier, own_prometheus: PrometheusServer
) -> None:
    own_prometheus.kill()
    with pytest.raises(PrometheusError):
        verifier.count(reload(recorded))
    record(recorded, line(time.time(), a=9))
    with pytest.raises(UnavailableError):
        verifier.count(reload(recorded))
    assert redeliveries(recorded) == 0
    assert Stream.select().where(Stream.delivered == 0).count() == 0


def test_nothing_is_delivered_while_it_is_counted(
    recorded: Run, verifier: SampleVerifier, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or Prometheus would have a sample that is not yet in the database."""
    deliverer: list[threading.Thread] = []

    def deliver() -> None:
        with database.connection_context():  # this thread's connection
            deliver_all(verifier.delivery)

    def count_meanwhile(prometheus: PrometheusClient, run_id: int) -> SampleCounts:
        record(recorded, line(time.time(), a=9))
        deliverer.append(threading.Thread(target=deliver))
        deliverer[0].start()
        deliverer[0].join(0.3)
        return count(prometheus, run_id)

    monkeypatch.setattr(sample_verification, "count", count_meanwhile)
    assert verifier.count(reload(recorded)) == WHOLE
    deliverer[0].join()
    assert count(verifier.prometheus, recorded.id) == SampleCounts(10, 8, 2)


def test_a_run_that_is_asked_about_waits_for_no_others(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is asked about while all are counted again."""
    old = [master.make_ended().id for _ in range(2)]
    ending = make_run().id
    counted: list[int] = []

    def count_and_ask(prometheus: PrometheusClient, run_id: int) -> SampleCounts:
        if not counted:
            master.verifier.ask(ending)
        counted.append(run_id)
        return count(prometheus, run_id)

    monkeypatch.setattr(sample_verification, "count", count_and_ask)
    master.verifier.recount()
    master.verifier.turn()
    assert counted[:3] == [old[0], ending, old[1]]


# --- Runs that have ended. ---


def age(*ended: Run, seconds: float = KEPT_SECONDS + 1) -> None:
    """Have runs ended so long ago."""
    ids = [run.id for run in ended]
    Run.update(finished_at=time.time() - seconds).where(Run.id.in_(ids)).execute()


@pytest.mark.both_databases
def test_samples_lost_right_after_the_end_are_delivered_again(master: Master) -> None:
    """As soon as Prometheus is back, though nothing was on its way to it meanwhile."""
    run = master.make_ended()
    master.server.lose_everything()
    master.verifier.turn()
    assert (reload(run).delivery, reload(run).redeliveries) == (None, 1)
    assert master.values(run) == ENDED.recorded, "what waits can be read"
    master.verifier.turn()
    assert reload(run).delivery is None, "it is not counted half delivered"
    deliver_all(master.delivery)
    assert master.values(run) == ENDED.recorded
    master.verifier.turn()
    assert (reload(run).delivery, reload(run).state) == (asdict(ENDED), "FINISHED")


def _put_late_blocks(server: PrometheusServer, promtool: Path) -> None:
    """Put two blocks of late samples beside each other, which Prometheus is going to merge.

    They reach a minute into the future, as such a block reaches to the end of its two hours.
    """
    text, now = server.folder / "late.txt", time.time()
    text.write_text("".join(f"late 1 {now + seconds}\n" for seconds in (-1, 60)) + "# EOF\n")
    create = (promtool, "tsdb", "create-blocks-from", "openmetrics", text, server.folder / "data")
    for _ in range(2):
        subprocess.run(create, check=True, capture_output=True)
    for meta in server.folder.glob("data/*/meta.json"):
        block = json.loads(meta.read_text())
        block["compaction"]["hints"] = ["from-out-of-order"]
        meta.write_text(json.dumps(block))


def _are_merged(server: PrometheusServer) -> bool:
    metas = [json.loads(meta.read_text()) for meta in server.folder.glob("data/*/meta.json")]
    ends = [meta["compaction"]["level"] for meta in metas if meta["maxTime"] > time.time() * 1000]
    return bool(ends) and min(ends) > 1


def test_samples_lost_at_a_restart_after_late_blocks_were_merged_are_delivered_again(
    master: Master, promtool: Path
) -> None:
    """Prometheus before 3.14 takes such a block for proof that its log is on disk (#19016)."""
    master.server.kill()
    _put_late_blocks(master.server, promtool)
    master.server.start()
    # What is older by more than three hours has Prometheus look for blocks to merge, now.
    hours_ago = round(time.time() * 1000) - 4 * 3600_000
    write_labelled(master.server.url, ({"__name__": "old"}, [(hours_ago, 1.0)]))
    run = master.make_ended()
    wait_for(lambda: _are_merged(master.server), what="the late blocks are merged")
    assert count(master.prometheus, run.id) == ENDED
    master.server.kill()
    master.server.start()
    lost = count(master.prometheus, run.id).lost
    master.verifier.turn()
    assert reload(run).redeliveries == bool(lost)
    deliver_all(master.delivery)
    master.verifier.turn()
    assert (reload(run).delivery, reload(run).state) == (asdict(ENDED), "FINISHED")
    assert master.values(run) == ENDED.recorded
    if not lost:
        pytest.skip("this Prometheus has lost nothing")


@pytest.mark.parametrize("seconds", [KEPT_SECONDS + 1, -KEPT_SECONDS - 1])
def test_an_hour_after_the_end_a_run_is_counted_for_the_last_time(
    master: Master, seconds: float
) -> None:
    """Also if a clock that was set back says that the end is still to come."""
    run, young = master.make_ended(), master.make_ended()
    age(run, seconds=seconds)
    for step in ("forget_some", "forget_delivered"):
        with killed_at(f"mlbench_master.controller.sample_verification.{step}"):
            master.verifier.turn()
        assert reload(run).settled_at is None
    master.verifier.turn()
    assert reload(run).settled_at == pytest.approx(time.time(), abs=10)
    assert reload(run).delivery == asdict(ENDED)
    assert reload(young).settled_at is None
    assert {chunk.stream.owner for chunk in Chunk.select()} == {run_owner(young.id)}
    # What comes later still goes as soon as it is delivered.
    record(run, line(time.time(), late=1), rank=7)
    deliver_all(master.delivery)
    assert {chunk.stream.owner for chunk in Chunk.select()} == {run_owner(young.id)}
    assert master.values(run) == ENDED.recorded + 1


def test_samples_missing_an_hour_later_are_delivered_again(master: Master) -> None:
    """Of a Prometheus that says nothing of it, as one whose series were deleted."""
    run = master.make_ended()
    master.server.lose_everything()
    master.verifier._prometheus_began = master.prometheus.began()
    age(run)
    master.verifier.turn()
    assert (reload(run).settled_at, reload(run).delivery) == (None, None)
    deliver_all(master.delivery)
    master.verifier.turn()
    assert reload(run).delivery == asdict(ENDED)
    assert reload(run).settled_at is None, "its archive is due again"
    master.sealer.turn()
    master.verifier.turn()
    assert reload(run).settled_at is not None
    assert Chunk.select().count() == 0


def test_each_prometheus_that_begins_empty_gets_all_of_an_active_run(master: Master) -> None:
    """However many begin in the course of it, as a release is upgraded again and again."""
    run = make_run(state="STARTED", started_at=time.time())
    record(run, line(time.time(), a=1, b=2))
    deliver_all(master.delivery)
    for _ in range(5):
        master.server.lose_everything()
        master.verifier.turn()
        deliver_all(master.delivery)
        assert master.values(run) == 2


def test_a_stopped_run_whose_count_disagrees_later_says_so(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_verification, "_MAX_REDELIVERIES", 0)
    run = make_run(state="STOPPED", finished_at=time.time(), reason="why\nstderr")
    record(run, line(time.time(), a=1, b=2))
    deliver_all(master.delivery)
    master.server.lose_everything()
    for _ in range(2):
        master.verifier.turn()
        missing = "samples are missing: 2 recorded, 0 in Prometheus, 0 in the database only"
        assert reload(run).reason == f"why; {missing}\nstderr"
        assert reload(run).delivery == asdict(SampleCounts(2, 0, 0))
        master.sealer.turn()
        age(run)
    assert reload(run).settled_at is not None


def test_a_run_can_be_deleted_while_it_waits_to_be_counted(master: Master) -> None:
    run = make_run(state="STOPPED", finished_at=time.time())
    record(run, line(time.time(), a=1))
    master.server.kill()
    with pytest.raises(Exception, match="refused"):
        master.verifier.turn()
    lifecycle.delete(reload(run))
    master.server.start()
    master.verifier.ask(run.id)
    master.verifier.turn()
    deliver_all(master.delivery)
    while deletion.sweep():
        pass
    assert Run.get_or_none(Run.id == run.id) is None
    assert Stream.select().count() == Chunk.select().count() == Series.select().count() == 0


@pytest.mark.parametrize("keep_archive", [False, True])
def test_no_query_finds_a_deleted_run(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_archive: bool
) -> None:
    master.server.kill()
    master.server.start("--web.enable-admin-api")
    run, other = master.make_ended(), master.make_ended()
    archive = str(reload(run).archive)
    labels = {"run_id": str(run.id), "alertname": "MLBenchRunStalled"}
    ours = [
        {"__name__": name} | labels for name in ("run_rank:mlbench_worker_steps:rate1m", "ALERTS")
    ]
    foreign = [{"__name__": "ci_job_seconds"} | labels, {**ours[1], "alertname": "JobStalled"}]
    now_ms = round(time.time() * 1000)
    written = [(series, [(now_ms, 1.0)]) for series in [*ours, *foreign]]
    assert write_labelled(master.server.url, *written).status_code == 204
    lifecycle.delete(reload(run), keep_archive=keep_archive)
    master.sealer.turn()
    master.verifier.turn()
    assert master.prometheus.query(f'{{run_id="{run.id}"}}'), "workers may be scraped once more"
    monkeypatch.setattr(sample_verification, "_SCRAPED_SECONDS", -1.0)
    master.verifier.turn()
    left = [series.labels for series in master.prometheus.query(f'{{run_id="{run.id}"}}[30d]')]
    assert sorted(left, key=str) == sorted(foreign, key=str), "what others have by this number"
    assert master.values(other) == ENDED.recorded
    assert [row.run_id for row in DeletedRun.select()] == [run.id], "once more"
    monkeypatch.setattr(sample_verification, "_COMPACTED_SECONDS", -1.0)
    master.verifier.turn()
    assert DeletedRun.select().count() == 0
    kept = [path.name for path in (tmp_path / "archive").rglob("*")]
    assert (archive in kept) == keep_archive


def test_a_prometheus_that_deletes_nothing_keeps_the_series(
    master: Master, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sample_verification, "_SCRAPED_SECONDS", -1.0)
    run = master.make_ended()
    master.server.kill()
    lifecycle.delete(reload(run))
    with pytest.raises(PrometheusError):
        master.verifier.turn()
    master.server.start()
    master.verifier.turn()
    assert f"the series of the runs [{run.id}] stay as long as others" in caplog.text
    assert DeletedRun.select().count() == 0


def test_runs_that_are_settled_cost_nothing(database: Database) -> None:
    unsettled = Run.select(Run.id).where(Run.settled_at.is_null(), sample_verification._is_due())
    sql, values = unsettled.order_by(Run.id).sql()
    [plan, *_] = database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    assert "USING INDEX run_settled_at" in plan[-1]
