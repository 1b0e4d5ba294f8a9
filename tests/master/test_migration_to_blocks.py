"""Migration of a home from before blocks: all samples stay the same."""

import importlib
import time
from pathlib import Path
from typing import Any

import pytest
from peewee import Database, PostgresqlDatabase

from mlbench.archive import opened
from mlbench_master.archives.sealing import Sealer
from mlbench_master.database.connection import run_sql
from mlbench_master.database.models import (
    TABLES,
    Block,
    Chunk,
    Run,
    Stream,
    added_owner,
    deleted_owner,
    pod_owner,
    run_owner,
)
from mlbench_master.errors import NotFoundError
from mlbench_master.migrations import bring_up_to_date
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.record import LiveRecord
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording import blocks, not_recorded, streams
from mlbench_master.recording.blocks import Note
from mlbench_master.recording.indexing import Indexer
from mlbench_master.recording.samples import Sample
from mlbench_master.recording.streams import StreamKey
from tests.support.known import known
from tests.support.rows import line, make_run, post, record, reload

pytestmark = pytest.mark.both_databases

_MIGRATION = "0033_blocks"
_TABLES = {
    "series": "metric TEXT",
    "detail": "metric TEXT",
    "keptsample": "id INTEGER, owner TEXT, metric TEXT, rank TEXT, time_us BIGINT, value TEXT, "
    "cumulative BOOLEAN, metadata TEXT",
}


class Home:
    """A home that records and seals, and can be reverted to the schema before blocks."""

    def __init__(self, prometheus: PrometheusClient, folder: Path, database: Database) -> None:
        self.indexer = Indexer(most_series=6)
        self.folder = folder
        self.reader = SeriesReader(prometheus, ArchiveStore(str(folder)))
        self.sealer = Sealer(self.reader)
        self._database = database
        self._chunks: dict[tuple[int, int], bytes] = {}

    def index(self) -> None:
        """Index all lines, and remember them, because earlier versions kept them."""
        self._remember()
        while self.indexer.index_waiting():
            pass

    def _remember(self) -> None:
        for chunk in Chunk.select():
            self._chunks[chunk.stream.id, chunk.offset] = bytes(chunk.data)

    def take_back(self, without: tuple[str, ...] = ()) -> None:
        """Revert the database to before blocks, with the lines of all owners but ``without``."""
        self._remember()
        columns = importlib.import_module(f"mlbench_master.migrations.{_MIGRATION}")._COLUMNS
        for table, old, new in columns:
            run_sql(f'ALTER TABLE "{table}" RENAME COLUMN "{new}" TO "{old}"')
        run_sql("DROP TABLE block")
        for table, described in _TABLES.items():
            run_sql(f"CREATE TABLE {table} ({described})")
        owners = dict(run_sql("SELECT id, owner FROM stream").fetchall())
        run_sql("DELETE FROM chunk WHERE stream_id IN (SELECT id FROM stream WHERE delivered > 0)")
        for (stream_id, offset), data in self._chunks.items():
            if owners[stream_id] not in without:
                add = 'INSERT INTO chunk (stream_id, "offset", data) VALUES (?, ?, ?)'
                run_sql(f"{add} ON CONFLICT DO NOTHING", stream_id, offset, data)
        run_sql("DELETE FROM schema_migration WHERE name = ?", _MIGRATION)
        if isinstance(self._database, PostgresqlDatabase):
            run_sql("SELECT setval('schema_migration_id_seq', 1000)")

    def migrate(self, without: tuple[str, ...] = ()) -> None:
        """Revert the database, and let this version bring it up to date."""
        self.take_back(without)
        self.bring_over()

    def bring_over(self) -> None:
        bring_up_to_date(self._database, TABLES)
        self.indexer = Indexer(most_series=6)
        self.index()

    def values(self, run: Run) -> dict[str, Any]:
        """Return all samples of a run, without timestamps of malformed lines."""
        return {
            name: [
                (points.values, dict(points.notes), points.times_us.tolist())
                if not name.startswith("malformed")
                else points.values
                for points in pieces
            ]
            for name, pieces in self.reader.run(run.id, Selection())
        }


@pytest.fixture
def home(prometheus: PrometheusClient, database: Database, tmp_path: Path) -> Home:
    return Home(prometheus, tmp_path / "archive", database)


def record_all_kinds(run: Run) -> None:
    now = 1_790_000_000.25
    for rank in (0, 1):
        lines = [line(now + i / 1000, a=i / 3, text=f"step {i}") for i in range(50)]
        record(run, b"".join(lines) + line(1.5, a=1e400), rank)
    record(run, b"no JSON\n" + line(now, fifth=1) + line(now, a=0.5))
    posted = Sample("b", "", 1_790_000_000_000_007, 1.0, True, {"ä": [1]})
    post(run_owner(run.id), [posted, Sample("seventh", "", 5, 1.0)])


@pytest.mark.parametrize("state", ["STARTED", "FINISHED"])
def test_unsealed_runs_are_indexed_again(home: Home, state: str) -> None:
    run = make_run(state="STARTED")
    record_all_kinds(run)
    home.index()
    if state == "FINISHED":
        Run.update(state=state, finished_at=time.time()).execute()
    values, counts = home.values(run), known(not_recorded.describe(run := reload(run)))
    assert (counts.malformed_lines, counts.refused_values, len(values)) == (1, 1, 8)
    recorded = [stream.recorded for stream in Stream.select().order_by(Stream.id)]
    home.migrate()
    assert home.values(run) == values
    assert not_recorded.describe(reload(run)) == counts
    assert reload(run).refused == run.refused
    assert [stream.recorded for stream in Stream.select().order_by(Stream.id)] == recorded
    assert Chunk.select().count() == 0
    assert reload(run).blocks_deleted_at is None
    if state == "FINISHED":
        assert not home.sealer.turn()
        assert home.values(run) == values


@pytest.mark.parametrize("is_settled", [False, True])
def test_sealed_runs_are_read_from_their_archives(home: Home, is_settled: bool) -> None:
    run = make_run()
    record_all_kinds(run)
    home.index()
    Run.update(state="FINISHED", finished_at=time.time()).execute()
    assert not home.sealer.turn()
    post(added_owner(run.id), [Sample("later", "0", 1_790_000_000_000_000, 7.0)])
    Run.update(added={"samples": 1, "first_at": 1.0, "last_at": 1.0}).execute()
    home.index()
    assert not home.sealer.turn()
    sealed, values = reload(run), home.values(run)
    if is_settled:
        Run.update(blocks_deleted_at=5.0).execute()
    before = {file: file.stat().st_mtime_ns for file in home.folder.iterdir()}
    assert len(before) == 2
    home.migrate(without=(run_owner(run.id), added_owner(run.id)) if is_settled else ())
    assert not home.sealer.turn()
    after = reload(run)
    assert after.blocks_deleted_at == (5.0 if is_settled else sealed.sealed_at)
    for name in ("archive_sha256", "sealed_at", "added", "not_recorded", "refused"):
        assert getattr(after, name) == getattr(sealed, name), name
    assert {file: file.stat().st_mtime_ns for file in home.folder.iterdir()} == before
    assert home.values(run) == values
    assert Chunk.select().count() == 0
    assert not Block.select().where(Block.owner == run_owner(run.id)).exists()


def test_a_sealed_run_with_a_late_line_is_sealed_again(home: Home) -> None:
    run = make_run()
    record(run, line(5.0, a=1))
    home.index()
    Run.update(state="FINISHED", finished_at=time.time()).execute()
    assert not home.sealer.turn()
    record(run, line(6.0, a=2))
    home.migrate()
    assert not home.sealer.turn()
    [[(values, _, _)]] = home.values(run).values()
    assert list(values) == ["1", "2"]
    with opened(home.folder / str(reload(run).archive)) as archive:
        assert sum(series.samples + series.kept for series in archive.series.values()) == 2


def test_samples_of_lost_ranks_are_counted_once(home: Home) -> None:
    run = make_run()
    for rank, lines in ((0, line(5.0, a=1) + b'{"ti'), (1, line(5.0, a=2) + line(6.0, a=3))):
        streams.append(StreamKey(added_owner(run.id), 1, rank, "metrics"), 0, lines)
    post_later = {"samples": 4, "first_at": 1.0, "last_at": 1.0}
    Run.update(added=post_later).execute()
    home.index()
    added = reload(run).added
    assert (added["samples"], added["of_lost_ranks"]) == (7, 3)
    # Chunks of the second rank were deleted with its last line.
    second = Stream.get(owner=added_owner(run.id), rank=1).id
    home._chunks = {key: data for key, data in home._chunks.items() if key[0] != second}
    home.migrate()
    after = reload(run).added
    assert (after["samples"], after["of_lost_ranks"]) == (7, 3)


def test_posted_samples_that_prometheus_cannot_hold_are_migrated(home: Home) -> None:
    home.take_back()
    rows = [
        ("w-0", "note", "", 7, "a text", True, '{"ä": [1]}'),
        ("w-0", "note", "", 8, "1e3", None, None),
        ("w-0", "load", "1", 9, "0.5", None, None),
        ("w-0", "load", "0", 5, "NaN", False, None),
        ("w-1", "load", "", 5, "2", None, None),
    ]
    for i, (pod, *row) in enumerate(rows):
        add = "INSERT INTO keptsample VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        run_sql(add, i, pod_owner(pod), *row)
    run_sql("INSERT INTO keptsample VALUES (9, 'run/1', 'text', '', 1, 'chunks', NULL, NULL)")
    home.bring_over()
    found = {
        (block.owner, block.metric): blocks.decode(bytes(block.data), block.samples)
        for block in Block.select()
    }
    counts = {key: len(samples) for key, samples in found.items()}
    assert counts == {("pod/w-0", "load"): 2, ("pod/w-0", "note"): 2, ("pod/w-1", "load"): 1}
    notes, load = found["pod/w-0", "note"], found["pod/w-0", "load"]
    assert notes.notes[0][:3] == ("a text", True, {"ä": [1]})
    assert notes.notes[1][:3] == ("1e3", None, None)
    assert notes.times_us.tolist() == [7, 8]
    assert [load.rank_names[rank] for rank in load.ranks] == ["1", "0"]
    assert [str(value) for value in load.values.tolist()] == ["0.5", "nan"]
    assert load.notes == {1: Note(None, False)}
    record = LiveRecord(pod_owner("w-1"))
    [series] = record.read("load", BEFORE_ALL_US, AFTER_ALL_US).values()
    assert series.values.tolist() == [2.0]


def test_a_run_without_lines_and_archive_is_not_sealed(home: Home) -> None:
    run = make_run()
    record(run, line(5.0, a=1))
    home.index()
    Run.update(state="FINISHED", finished_at=time.time()).execute()
    home.migrate(without=(run_owner(run.id),))
    assert not home.sealer.turn()
    assert reload(run).archive is None
    assert "are only in Prometheus" in reload(run).archive_problem
    with pytest.raises(NotFoundError):
        home.values(run)


def test_lines_of_deleted_runs_are_not_indexed(home: Home) -> None:
    run = make_run()
    record(run, line(5.0, a=1))
    home.index()
    Stream.update(owner=deleted_owner(run_owner(run.id))).execute()
    home.migrate()
    assert Block.select().count() == 0
