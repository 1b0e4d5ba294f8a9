"""Migrations of older databases run once and atomically; newer databases are refused."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from peewee import Database, IntegerField, Model
from playhouse.migrations import Runner

from mlbench_master.database.connection import connect, database, exclusive, run_sql
from mlbench_master.database.models import TABLES, Run, open_database
from mlbench_master.migrations import (
    FOLDER,
    SCHEMA,
    NewerSchemaError,
    OlderSchemaError,
    bring_up_to_date,
)
from mlbench_master.runs import benchmark_sets
from mlbench_master.runs.presenters import describe_all

BASELINE = "0012_baseline"
_RELEASED = Path(__file__).parent / "released"
_NEW_RUN = {
    **{"job_id": "j", "name": "new", "benchmark": "digits", "args": {}, "num_workers": 1},
    **{"state": "STARTED", "created_at": 0.0},
}
# Former tables of samples, replaced by blocks.
_GONE = {"series", "keptsample", "detail"}
# Columns of the released databases that later versions have renamed.
_RENAMED = {
    ("run", "goal"): "target",
    ("run", "goal_reached_at"): "target_reached_at",
    ("run", "goal_train_seconds"): "target_train_seconds",
    ("run", "place"): "slot",
    ("runset", "places"): "slots",
    ("rank", "disturbance"): "interference",
    ("stream", "names_ranks"): "has_other_ranks",
    ("stream", "delivered"): "indexed",
    ("run", "redeliveries"): "resends",
}
_OPEN = """
import sys
from mlbench_master.database.models import TABLES, Run, open_database

print("ready", flush=True)
database = open_database(sys.argv[1])
assert all(table.table_exists() for table in TABLES)
database.close()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server = request.getfixturevalue("postgres")
    with server.new_database() as name:
        yield server.url(name)


@pytest.mark.slow
def test_concurrent_migrations_wait_for_each_other(empty_url: str) -> None:
    opened = connect(empty_url)
    database.initialize(opened)
    with exclusive(SCHEMA):
        command = [sys.executable, "-c", _OPEN, empty_url]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            processes[0].wait(0.3)
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 2
    opened.close()


class _Kept(Model):
    first = IntegerField()

    class Meta:
        table_name = "kept"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that contains only the baseline migration."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / f"{BASELINE}.py").write_text((FOLDER / f"{BASELINE}.py").read_text())
    return folder


@pytest.fixture
def released(empty_url: str, folder: Path) -> Iterator[Database]:
    """A database at the baseline, with one table and one row."""
    opened = connect(empty_url)
    database.initialize(opened)
    with opened.bind_ctx([_Kept]):
        bring_up_to_date(opened, [_Kept], folder)
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


def applied() -> list[str]:
    rows = run_sql("SELECT name FROM schema_migration ORDER BY name").fetchall()
    return [name for (name,) in rows]


def note_applied(*names: str) -> None:
    for name in names:
        run_sql("INSERT INTO schema_migration (name, applied) VALUES (?, '2026-11-01')", name)


def test_a_migration_runs_once(released: Database, folder: Path) -> None:
    (folder / "0013_second.py").write_text(ADD)
    for _ in range(2):
        bring_up_to_date(released, [_Kept], folder)
    assert run_sql("SELECT first, second FROM kept").fetchall() == [(1, 2)]
    assert applied() == [BASELINE, "0013_second"]


def test_a_new_database_needs_no_migrations(released: Database, folder: Path) -> None:
    released.drop_tables([_Kept])
    (folder / "0013_second.py").write_text(ADD)
    bring_up_to_date(released, [_Kept], folder)
    assert [column.name for column in released.get_columns("kept")] == ["id", "first"]
    assert applied() == [BASELINE, "0013_second"]


def test_migrations_are_atomic(released: Database, folder: Path) -> None:
    (folder / "0013_second.py").write_text(ADD)
    (folder / "0014_fails.py").write_text(FAIL)
    with pytest.raises(ZeroDivisionError):
        bring_up_to_date(released, [_Kept], folder)
    assert run_sql("SELECT * FROM kept").fetchall() == [(1, 1)]
    assert applied() == [BASELINE]


def test_a_newer_database_is_refused(released: Database, folder: Path) -> None:
    newer = folder / "9999_of_tomorrow.py"
    newer.write_text(ADD)
    bring_up_to_date(released, [_Kept], folder)
    newer.unlink()
    (folder / "0013_fails.py").write_text(FAIL)
    with pytest.raises(NewerSchemaError, match=r"9999_of_tomorrow: install the version"):
        bring_up_to_date(released, [_Kept], folder)


def test_references_are_checked_after_migrations(tmp_path: Path) -> None:
    opened = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    assert opened.execute_sql("PRAGMA foreign_keys").fetchone() == (1,)
    opened.close()


# --- Databases of the first release and earlier ---


@pytest.fixture
def first_release(empty_url: str) -> Iterator[Database]:
    """A database with the tables of the first release and one run."""
    opened = connect(empty_url)
    database.initialize(opened)
    kind = "sqlite" if empty_url.startswith("sqlite") else "postgresql"
    for statement in (_RELEASED / f"{kind}.sql").read_text().splitlines():
        run_sql(statement)
    columns = [name for name, _, required in _columns(opened)["run"] if required and name != "id"]
    values = ("'STARTED'" if name == "state" else "'1'" for name in columns)
    run_sql(f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join(values)})")  # noqa: S608
    Runner(opened).History.create_table()
    yield opened
    opened.close()


def _columns(opened: Database) -> dict[str, list[tuple[str, str, bool]]]:
    """Return the columns of each table, sorted: name, type, and whether a value is required."""
    return {
        table: sorted(
            (column.name, column.data_type, not column.null) for column in opened.get_columns(table)
        )
        for table in opened.get_tables()
    }


@pytest.mark.parametrize("had", [["0012_baseline"], ["0001_baseline", "0011_figures"]])
def test_a_migrated_database_has_the_newest_schema(first_release: Database, had: list[str]) -> None:
    note_applied(*had)
    bring_up_to_date(first_release, TABLES)
    migrated, indexes = _columns(first_release), _indexes(first_release)
    assert Run.get().state == "STARTED"
    first_release.drop_tables(TABLES)
    first_release.create_tables(TABLES)
    assert (migrated, indexes) == (_columns(first_release), _indexes(first_release))
    assert applied() == sorted({*had, *(path.stem for path in FOLDER.glob("0*.py"))})


def _indexes(opened: Database) -> set[tuple[str, tuple[str, ...], bool]]:
    indexes = [index for table in opened.get_tables() for index in opened.get_indexes(table)]
    return {(index.table, tuple(index.columns), index.unique) for index in indexes}


@pytest.mark.parametrize("had", [[], ["0001_posted_samples", "0010_settled"]])
def test_a_database_before_the_first_release_is_refused(database: Database, had: list[str]) -> None:
    run_sql("DELETE FROM schema_migration")
    note_applied(*had)
    with pytest.raises(OlderSchemaError, match=r"before 22 November 2026 .*: open it once with"):
        bring_up_to_date(database, TABLES)
    assert applied() == had


# --- Databases of earlier versions. Each has a run with two ranks, a failed run and another run.
# Rows of samples, workers and most ranks were removed. ---


@pytest.mark.parametrize("dump", [*_RELEASED.glob("2026-*.sql")], ids=lambda dump: dump.stem)
def test_databases_of_earlier_versions_keep_their_data(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "mlbench.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
        before = _rows(connection)
    opened = open_database(f"sqlite:///{path}")
    described = describe_all(list(Run.select().order_by(Run.id)))
    seen = [(run.name, run.state, [rank.exit_code for rank in run.ranks]) for run in described]
    assert seen == [("first", "FINISHED", [0]), ("own", "FAILED", []), ("second", "FINISHED", [0])]
    assert Run.create(**_NEW_RUN).id == 10, "ids of deleted runs must not be reused"
    Run.delete_by_id(10)
    migrated = _columns(opened), _indexes(opened)
    opened.close()
    with closing(sqlite3.connect(path)) as connection:
        after = _rows(connection)
    for run in after["run"]:
        # The dump does not contain the run's chunks.
        [was] = [row for row in before["run"] if row["id"] == run["id"]]
        assert run["archive"] == was.get("archive")
        assert run["blocks_deleted_at"] == run["sealed_at"]
        is_sealed_as_before = run["sealed_at"] == was.get("sealed_at")
        assert is_sealed_as_before or run["archive_problem"] or not run["delivery"]
    for table in before.keys() - _GONE:
        rows = before[table]
        assert len(after[table]) == len(rows) or table == "schema_migration", table
        for row, same in zip(rows, after[table], strict=False):
            current = {
                _RENAMED.get((table, name), name): value
                for name, value in row.items()
                # Keys inside figures and delivery were renamed.
                if name not in {"figures", "delivery", "settled_at"}
            }
            assert current.items() <= same.items(), table
    opened = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    assert migrated == (_columns(opened), _indexes(opened))
    opened.close()


def test_a_set_of_an_earlier_version_waits_to_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "mlbench.db"
    slots = json.dumps([{"num_workers": 1, "seed": seed} for seed in (1, 2)])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((_RELEASED / "2026-11-27.sql").read_text())
        connection.executemany(
            'INSERT INTO runset (name, created_at, official, "order", places, deleted)'
            " VALUES (?, 1.0, 0, '{\"benchmark\": \"digits\"}', ?, '[]')",
            [("begun", slots), ("done", json.dumps(json.loads(slots)[:1]))],
        )
        connection.executemany(
            "UPDATE run SET set_name = ?, place = 1 WHERE name = ?",
            [("begun", "first"), ("done", "second")],
        )
        connection.commit()
    opened = open_database(f"sqlite:///{path}")
    sets = {run_set.name: run_set for run_set in benchmark_sets.describe_all()}
    assert (sets["begun"].state, sets["done"].state) == ("stopped", "finished")
    assert sets["begun"].progress["planned"] == sets["begun"].progress["done"] == 1
    assert benchmark_sets.find_next() == []
    assert benchmark_sets.describe(benchmark_sets.resume("begun")).waiting == (2,)
    assert [row.name for row in benchmark_sets.find_next()] == ["begun"]
    opened.close()


def _rows(connection: sqlite3.Connection) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, by table name."""
    connection.row_factory = sqlite3.Row
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    return {
        table: [dict(row) for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')]  # noqa: S608
        for (table,) in connection.execute(tables).fetchall()
    }
