"""An older database is brought up to date with all that it holds, once, and a newer one refused."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import Database, IntegerField, Model

from master.app import create_app
from master.database import connect, connect_tables, exclusive, run_sql
from master.migrations import FOLDER, SCHEMA, NewerSchemaError, bring_up_to_date
from master.models import TABLES, Run, Stream, open_database, pod_owner, run_owner
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter, TimeSeries
from master.recording.samples import Sample, prometheus_labels, series_name, spell
from master.recording.streams import parse, read
from master.settings import Settings
from tests.conftest import USER_TOKEN, PrometheusServer

_OLD = Path(__file__).parent / "migrations" / "0.1.0.sql"
_POD = "local-mlbench-worker-0"
_BEGAN_MS = 1763683200000
# What 0.1.0 had delivered to Prometheus: each series with its (seconds, value).
_DELIVERED: dict[tuple[str, str], list[tuple[float, float]]] = {
    ("speed", ""): [(2, 12.5)],
    **{
        (metric, str(rank)): points
        for rank in range(2)
        for metric, points in {
            "train_loss": [(float(step), 1 / (step + 1 + rank)) for step in range(4)],
            "step": [(float(step), float(step)) for step in range(4)],
            "val_global_Prec@1": [(9.0, 90.5)],
        }.items()
    },
}

_OPEN = """
import sys
from master.models import TABLES, open_database

print("ready", flush=True)
database = open_database(sys.argv[1])
assert all(table.table_exists() for table in TABLES)
database.close()
"""


def restore(folder: Path) -> str:
    """Return the URL of a database as 0.1.0 left it."""
    path = folder / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(_OLD.read_text())
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Database]:
    """What 0.1.0 left, opened today."""
    opened = open_database(restore(tmp_path))
    yield opened
    opened.close()


def schema(database: Database) -> dict[str, Any]:
    """Return tables, columns, keys and indexes, whatever their order."""
    return {
        table: (
            {column._replace(table="") for column in database.get_columns(table)},
            database.get_primary_keys(table),
            {(i.name, tuple(i.columns), i.unique) for i in database.get_indexes(table)},
            {f[:3] + f[4:] for f in database.get_foreign_keys(table)},
        )
        for table in database.get_tables()
    }


def test_an_old_database_has_the_schema_of_a_new_one(old: Database, tmp_path: Path) -> None:
    """If this fails, a table has changed without a migration that changes those of users."""
    migrated = schema(old)
    new = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    assert migrated == schema(new)
    assert applied(old) == applied(new)
    new.close()


def applied(database: Database) -> list[str]:
    rows = database.execute_sql("SELECT name FROM schema_migration ORDER BY name")
    return [name for (name,) in rows.fetchall()]


def test_every_row_is_there_and_refers_to_what_it_did(old: Database) -> None:
    assert old.execute_sql("PRAGMA foreign_key_check").fetchall() == []
    counts = {table.__name__: table.select().count() for table in TABLES}
    assert counts == {
        **{"Run": 2, "Rank": 2, "Worker": 2, "Hearing": 0, "Pod": 2, "Stream": 8, "Chunk": 7},
        **{"Series": 8, "SeriesName": 11, "KeptSample": 9, "Detail": 0, "PostedBody": 0},
        "Deletion": 0,
    }
    run = Run.get_by_id(1)
    assert (run.name, run.args, run.num_cpus, run.backend) == ("first", {"epochs": "2"}, 1, "gloo")
    assert run.run_all_nodes is True
    assert (run.image, run.command, run.seed, run.max_bandwidth) == ("", "", None, None)
    run.delete_instance()
    assert [rank for (rank,) in run_sql("SELECT id FROM rank")] == []


def test_the_id_of_a_run_that_0_1_0_deleted_is_not_used_again(old: Database) -> None:
    order = {"job_id": "", "name": "", "benchmark": "", "args": {}, "num_workers": 1}
    assert Run.create(**order, state="FINISHED", created_at=0.0).id == 4


def test_the_api_reads_an_old_run(
    old: Database, settings: Settings, own_prometheus: PrometheusServer
) -> None:
    writer, prometheus = RemoteWriter(own_prometheus.url), PrometheusClient(own_prometheus.url)
    for key, points in _DELIVERED.items():
        times_ms = [_BEGAN_MS + round(at * 1000) for at, _ in points]
        series = TimeSeries(
            prometheus_labels(run_owner(1), key), times_ms, [value for _, value in points]
        )
        writer.send([series])
    api = TestClient(
        create_app(settings, prometheus), headers={"Authorization": f"Bearer {USER_TOKEN}"}
    )
    run = api.simulate_get("/api/runs/1/").json
    assert (run["name"], run["state"], run["num_cpus"]) == ("first", "FINISHED", 1)
    assert run["delivery"] == {"recorded": 28, "in_prometheus": 19, "kept": 9}
    assert "boom" in api.simulate_get("/api/runs/2/").json["reason"]
    logs = api.simulate_get("/api/runs/1/logs/", params={"rank": "1"}).json
    assert logs["text"] == "rank 1 has begun\nand has ended ä\n"
    read = api.simulate_get("/api/metrics/1/", params={"metric_type": "run"}).json
    found = {name: [sample["value"] for sample in samples] for name, samples in read.items()}
    steps = [f"step {step}" for step in range(4)]
    assert found == {
        **{
            series_name(*key): [spell(float(value)) for _, value in points]
            for key, points in _DELIVERED.items()
        },
        **{"note @ 0": steps, "note @ 1": steps, "TaskResult": ["good"]},
    }
    assert read["TaskResult"][0]["date"] == "2025-11-21T00:00:00.123456Z"
    writer.close()
    prometheus.close()


def test_posted_samples_that_waited_are_delivered(
    old: Database, own_prometheus: PrometheusServer
) -> None:
    stream = Stream.get(owner=pod_owner(_POD))
    lines = read(stream, stream.delivered, stream.size)
    temperature, state, load = list(parse(stream, lines, 0))
    at_us = _BEGAN_MS * 1000 + 3_000_000
    assert temperature == Sample("temperature", "", at_us, 41.5, None, None)
    assert state == Sample("state", "", at_us + 1, "wärm", None, None)
    assert isinstance(load, Sample)
    assert str(load.value) == "nan"
    writer = RemoteWriter(own_prometheus.url)
    delivery = Delivery(writer)
    while delivery.deliver_waiting():
        pass
    stream = Stream.get_by_id(stream.id)
    assert (stream.delivered, stream.recorded) == (stream.size, 1 + 3)
    writer.close()


@pytest.mark.parametrize("kind", ["old", "sqlite", "postgresql"])
def test_processes_that_start_together_wait_for_each_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = empty_url(kind, tmp_path, request) if kind != "old" else restore(tmp_path)
    opened = connect(url)
    connect_tables(opened)
    with exclusive(SCHEMA):
        processes = [
            subprocess.Popen([sys.executable, "-c", _OPEN, url], stdout=subprocess.PIPE)
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            processes[0].wait(0.3)
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 3
    opened.close()


def empty_url(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder / 'empty.db'}"
    server = request.getfixturevalue("postgres")
    lent = server.new_database()
    name = lent.__enter__()
    request.addfinalizer(lambda: lent.__exit__(None, None, None))
    url: str = server.url(name)
    return url


class _Kept(Model):
    first = IntegerField()

    class Meta:
        table_name = "kept"


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database of which one table was made when there were no migrations yet."""
    opened = connect(empty_url(request.param, tmp_path, request))
    connect_tables(opened)
    with opened.bind_ctx([_Kept]):
        (tmp_path / "migrations").mkdir()
        bring_up_to_date(opened, [_Kept], tmp_path / "migrations")
        _Kept.create(first=1)
        yield opened
    opened.close()


ADD = """
from peewee import IntegerField

def up(migrator, db):
    migrator.migrate(migrator.add_column("kept", "second", IntegerField(default=2)))
"""

FAIL = """
def up(migrator, db):
    db.execute_sql("UPDATE kept SET first = 0")
    raise ZeroDivisionError
"""


def test_a_migration_runs_once(migrated: Database, tmp_path: Path) -> None:
    (tmp_path / "migrations" / "0001_second.py").write_text(ADD)
    for _ in range(2):
        bring_up_to_date(migrated, [_Kept], tmp_path / "migrations")
    assert run_sql("SELECT first, second FROM kept").fetchall() == [(1, 2)]
    assert applied(migrated) == ["0001_second"]


def test_a_new_database_needs_none(migrated: Database, tmp_path: Path) -> None:
    migrated.drop_tables([_Kept])
    (tmp_path / "migrations" / "0001_second.py").write_text(ADD)
    bring_up_to_date(migrated, [_Kept], tmp_path / "migrations")
    assert [column.name for column in migrated.get_columns("kept")] == ["id", "first"]
    assert applied(migrated) == ["0001_second"]


def test_all_or_nothing(migrated: Database, tmp_path: Path) -> None:
    (tmp_path / "migrations" / "0001_second.py").write_text(ADD)
    (tmp_path / "migrations" / "0002_fails.py").write_text(FAIL)
    with pytest.raises(ZeroDivisionError):
        bring_up_to_date(migrated, [_Kept], tmp_path / "migrations")
    assert run_sql("SELECT * FROM kept").fetchall() == [(1, 1)]
    assert applied(migrated) == []


def test_a_newer_database_is_refused(migrated: Database, tmp_path: Path) -> None:
    newer = tmp_path / "migrations" / "9999_of_tomorrow.py"
    newer.write_text(ADD)
    bring_up_to_date(migrated, [_Kept], newer.parent)
    newer.unlink()
    (newer.parent / "0001_fails.py").write_text(FAIL)
    with pytest.raises(NewerSchemaError, match=r"9999_of_tomorrow: install the version"):
        bring_up_to_date(migrated, [_Kept], newer.parent)


def test_references_are_checked_again_afterwards(old: Database) -> None:
    assert old.execute_sql("PRAGMA foreign_keys").fetchone() == (1,)


def test_files_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in FOLDER.glob("[0-9]*"))
    assert [name[:5] for name in names] == [f"{n:04}_" for n in range(1, len(names) + 1)]
