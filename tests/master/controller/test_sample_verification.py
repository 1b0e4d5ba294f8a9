"""Sample verification: runs are recounted, and samples that Prometheus lost are sent again."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from peewee import Database

from mlbench_master.archives.sealing import Sealer
from mlbench_master.controller import sample_verification
from mlbench_master.controller.sample_verification import KEPT_SECONDS, SampleVerifier
from mlbench_master.database.models import Block, Chunk, DeletedRun, Run, Stream, run_owner
from mlbench_master.reading.counting import SampleCounts, count, waits_for_export
from mlbench_master.reading.promql import PrometheusClient, PrometheusError
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.runs import deletion, lifecycle, presenters
from tests.conftest import PrometheusServer
from tests.support.killing import killed_at
from tests.support.places import write_labelled
from tests.support.recording import Recording
from tests.support.rows import line, make_run, post, record, reload

# Sample counts of a run of `Master.make_ended`.
ENDED = SampleCounts(recorded=21, in_prometheus=20, record_only=1)


class Master:
    """The controller's export, verification and sealing, one step at a time."""

    def __init__(self, server: PrometheusServer, archives: ArchiveStore) -> None:
        self.server = server
        self.writer, self.prometheus = RemoteWriter(server.url), PrometheusClient(server.url)
        self.recording = Recording.to(self.writer)
        self.verifier = SampleVerifier(self.prometheus, self.recording.exporter)
        self.reader = SeriesReader(self.prometheus, archives)
        self.sealer = Sealer(self.reader)

    def make_ended(self, state: str = "FINISHED") -> Run:
        """Return a run that has just ended, with its samples exported, verified and sealed."""
        now = time.time()
        run = make_run(state=state, started_at=now - 2, finished_at=now)
        record(run, b"".join(line(now - 1 + i / 1000, a=i) for i in range(20)))
        record(run, line(now, text="kept"))
        self.recording.run_all()
        self.verifier.turn()
        assert reload(run).delivery == asdict(ENDED)
        self.sealer.turn()
        return run

    def lose_unnoticed(self) -> None:
        """Delete all data of Prometheus, and hide its restart from the verifier."""
        self.server.lose_everything()
        self.verifier._prometheus_began = self.prometheus.began()

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
def recorded(run: Run, master: Master) -> Run:
    """An active run with all kinds of samples, fully exported."""
    now = round(time.time(), 3)
    Run.update(started_at=now - 1).where(Run.id == run.id).execute()
    for rank in (0, 1):
        record(run, b"".join(line(now + i / 1000, a=i) for i in range(3)), rank)
    record(run, line(now, text="kept"))
    post(run_owner(run.id), [Sample("b", "", int(now * 1e6), 1.0), Sample("b", "", 1, 2.0)])
    master.recording.run_all()
    return reload(run)


def resends(run: Run) -> int:
    return int(reload(run).resends)


@pytest.mark.parametrize(("hours", "again"), [(22.9, True), (23.1, False)])
def test_samples_too_old_for_prometheus_are_not_sent_again(
    recorded: Run, master: Master, hours: float, again: bool
) -> None:
    Run.update(started_at=time.time() - hours * 3600, finished_at=time.time()).execute()
    master.server.lose_everything()
    master.verifier.turn()
    assert resends(recorded) == int(again)
    assert reload(recorded).delivery == (None if again else asdict(SampleCounts(9, 0, 2)))


def test_lost_samples_of_an_active_run_are_sent_again(
    recorded: Run, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbench_master.recording.export._BATCH_SAMPLES", 1)
    for _ in range(5):  # more often than the limit of resends per Prometheus start
        master.server.lose_everything()
        # An active run always has samples that wait for export.
        record(recorded, line(time.time(), text="another"))
        master.recording.index_all()
        master.verifier.turn()
        assert resends(recorded) == 1, "the count restarts with Prometheus"
        assert master.recording.exporter.export_waiting()
        assert waits_for_export(recorded.id), "one batch must not be enough"
    master.recording.export_all()
    assert count(master.prometheus, recorded) == SampleCounts(14, 7, 7)
    assert master.values(recorded) == 14


def test_extra_samples_in_prometheus_are_not_a_loss(recorded: Run, master: Master) -> None:
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(recorded.id), "metric": "extra"}
    now_ms = round(time.time() * 1000) - 1
    assert write_labelled(master.server.url, (foreign, [(now_ms, 1.0)])).status_code == 204
    post(run_owner(recorded.id), [Sample("b", "", now_ms * 1000 + 1000, 1.0)])
    master.recording.run_all()
    master.verifier.recount()
    master.verifier.turn()
    assert count(master.prometheus, recorded) == SampleCounts(10, 9, 2)
    assert resends(recorded) == 0


@pytest.mark.both_databases
def test_an_ended_run_is_counted_once_prometheus_is_back(recorded: Run, master: Master) -> None:
    record(recorded, line(time.time(), a=9), rank=2)
    master.recording.index_all()
    Run.update(state="FINISHED", finished_at=time.time()).execute()
    master.server.kill()
    with pytest.raises(PrometheusError):
        master.verifier.turn()
    assert "not yet counted" in str(presenters.describe(reload(recorded)).waiting)
    assert master.values(recorded) == 10, "all samples must be readable meanwhile"
    master.server.start()
    master.verifier.turn()
    assert reload(recorded).delivery is None, "one was not exported"
    master.recording.export_all()
    record(recorded, line(1.0, b=3), rank=3)
    master.verifier.turn()
    assert reload(recorded).delivery is None, "one was not indexed"
    master.recording.run_all()
    master.verifier.turn()
    assert reload(recorded).delivery == asdict(SampleCounts(11, 8, 3))
    assert resends(recorded) == 0
    assert presenters.describe(reload(recorded)).waiting == ""


def test_a_run_that_never_started_is_counted(master: Master) -> None:
    run = make_run(state="STOPPED", finished_at=time.time())
    master.verifier.turn()
    assert reload(run).delivery == asdict(SampleCounts(0, 0, 0))


# --- Ended runs ---


def age(*ended: Run, seconds: float = KEPT_SECONDS + 1) -> None:
    """Set the end of runs to this many seconds ago."""
    ids = [run.id for run in ended]
    Run.update(finished_at=time.time() - seconds).where(Run.id.in_(ids)).execute()


@pytest.mark.both_databases
def test_samples_lost_right_after_the_end_are_sent_again(master: Master) -> None:
    """Covers a Prometheus that lost data while no samples were on their way to it."""
    run = master.make_ended()
    digest = reload(run).archive_sha256
    master.server.lose_everything()
    master.verifier.turn()
    assert (reload(run).delivery, reload(run).resends) == (None, 1)
    assert master.values(run) == ENDED.recorded
    master.verifier.turn()
    assert reload(run).delivery is None, "the run must not be counted before all samples are sent"
    master.recording.export_all()
    assert master.values(run) == ENDED.recorded
    master.verifier.turn()
    assert (reload(run).delivery, reload(run).state) == (asdict(ENDED), "FINISHED")
    assert reload(run).sealed_at is not None, "the archive must stay sealed"
    assert reload(run).archive_sha256 == digest


def test_samples_that_prometheus_loses_repeatedly_are_reported(master: Master) -> None:
    run = master.make_ended()
    for resent in (1, 2, 3, 3):
        master.lose_unnoticed()
        master.verifier.recount()
        master.verifier.turn()
        assert resends(run) == resent
        master.recording.export_all()
    lost = SampleCounts(21, 0, 1)
    ended = reload(run)
    assert (ended.state, ended.reason, ended.delivery) == ("FINISHED", "", asdict(lost))
    lacks = "Prometheus lacks samples: 21 recorded, 0 in Prometheus, 1 in the record only"
    assert lost.disagreement == lacks
    age(run)
    master.verifier.turn()
    assert reload(run).blocks_deleted_at is not None
    assert reload(run).delivery == asdict(lost)
    assert master.values(run) == ENDED.recorded


@pytest.mark.both_databases
@pytest.mark.parametrize("seconds", [KEPT_SECONDS + 1, -KEPT_SECONDS - 1])
def test_blocks_are_deleted_an_hour_after_the_end(
    master: Master, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Covers an end in the future, after the system clock was set back."""
    monkeypatch.setattr(sample_verification, "_DELETED_AT_ONCE", 1)
    run, young = master.make_ended(), master.make_ended()
    assert Chunk.select().count() == 0, "indexed lines must not be stored twice"
    age(run, seconds=seconds)
    with killed_at("mlbench_master.controller.sample_verification.store"):
        master.verifier.turn()
    assert reload(run).blocks_deleted_at is None
    with killed_at("mlbench_master.controller.sample_verification.time.sleep"):
        master.verifier.turn()
    assert reload(run).blocks_deleted_at == pytest.approx(time.time(), abs=10)
    assert Block.select().where(Block.owner == run_owner(run.id)).exists(), "left by the kill"
    assert master.values(run) == ENDED.recorded
    SampleVerifier(master.prometheus, master.recording.exporter).turn()
    assert reload(run).delivery == asdict(ENDED)
    assert reload(young).blocks_deleted_at is None
    assert {block.owner for block in Block.select()} == {run_owner(young.id)}
    assert master.values(run) == master.values(young) == ENDED.recorded


def test_blocks_stay_until_their_run_is_sealed(master: Master) -> None:
    run = master.make_ended()
    Run.update(sealed_at=None).execute()
    age(run)
    master.verifier.turn()
    assert reload(run).blocks_deleted_at is None
    master.sealer.turn()
    master.verifier.turn()
    assert reload(run).blocks_deleted_at is not None


def test_samples_missing_an_hour_later_are_sent_again(master: Master) -> None:
    """Covers lost series without a restart of Prometheus, e.g. after an API deletion."""
    run = master.make_ended()
    master.lose_unnoticed()
    age(run)
    master.verifier.turn()
    assert (reload(run).blocks_deleted_at, reload(run).delivery) == (None, None)
    master.recording.export_all()
    master.verifier.turn()
    assert reload(run).delivery == asdict(ENDED)
    assert reload(run).blocks_deleted_at is not None
    assert Block.select().count() == 0


def test_a_run_can_be_deleted_before_its_samples_are_counted(master: Master) -> None:
    run = make_run(state="STOPPED", finished_at=time.time())
    record(run, line(time.time(), a=1))
    master.recording.run_all()
    master.server.kill()
    with pytest.raises(Exception, match="refused"):
        master.verifier.turn()
    lifecycle.delete(reload(run))
    master.server.start()
    master.verifier.turn()
    master.recording.run_all()
    while deletion.sweep():
        pass
    assert Run.get_or_none(Run.id == run.id) is None
    assert Stream.select().count() == Chunk.select().count() == Block.select().count() == 0


@pytest.mark.parametrize("keep_archive", [False, True])
def test_no_query_finds_a_deleted_run(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_archive: bool
) -> None:
    master.server.kill()
    master.server.start("--web.enable-admin-api")
    run, other = master.make_ended(), master.make_ended()
    archive = str(reload(run).archive)
    labels = {"run_id": str(run.id), "alertname": "MLBenchRunStalled"}
    names = ("run_rank:mlbench_worker_steps:rate1m", "ALERTS")
    ours = [{"__name__": name} | labels for name in names]
    foreign = [{"__name__": "ci_job_seconds"} | labels, {**ours[1], "alertname": "JobStalled"}]
    now_ms = round(time.time() * 1000)
    written = [(series, [(now_ms, 1.0)]) for series in [*ours, *foreign]]
    assert write_labelled(master.server.url, *written).status_code == 204
    lifecycle.delete(reload(run), keep_archive=keep_archive)
    master.sealer.turn()
    master.verifier.turn()
    # Series stay while workers may still be scraped.
    assert master.prometheus.query(f'{{run_id="{run.id}"}}')
    monkeypatch.setattr(sample_verification, "_SCRAPED_SECONDS", -1.0)
    master.verifier.turn()
    left = [series.labels for series in master.prometheus.query(f'{{run_id="{run.id}"}}[30d]')]
    # Series of other programs with the same run_id stay.
    assert sorted(left, key=str) == sorted(foreign, key=str)
    assert master.values(other) == ENDED.recorded
    # The deletion is repeated after compaction.
    assert [row.run_id for row in DeletedRun.select()] == [run.id]
    monkeypatch.setattr(sample_verification, "_COMPACTED_SECONDS", -1.0)
    master.verifier.turn()
    assert DeletedRun.select().count() == 0
    kept = [path.name for path in (tmp_path / "archive").rglob("*")]
    assert (archive in kept) == keep_archive


def test_series_stay_without_the_admin_api_of_prometheus(
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


def test_runs_with_blocks_are_found_by_index(database: Database) -> None:
    with_blocks = Run.select().where(Run.origin.is_null(), Run.blocks_deleted_at.is_null())
    sql, values = with_blocks.order_by(Run.id).sql()
    [plan, *_] = database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    assert "USING INDEX run_blocks_deleted_at" in plan[-1]
