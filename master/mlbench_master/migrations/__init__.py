"""Migrations: bring the schema of an older database up to date when it is opened.

A new table or column is in ``models.py``, from which new databases are made, and in a file
``NNNN_what.py`` here, whose function ``up(migrator, db)`` changes existing databases. It runs once
in each database. Once committed, a migration is never changed, renamed or removed, because some
database has had it: ``scripts/check-migrations.sh`` compares each file with its digest.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peewee import Database, SqliteDatabase
from playhouse.migrate import SchemaMigrator
from playhouse.migrations import Runner

from mlbench.contract.errors import MLBenchError
from mlbench_master.database.connection import exclusive

FOLDER = Path(__file__).parent
# The key of `exclusive` that migrations run under.
SCHEMA = "schema"


class NewerSchemaError(MLBenchError):
    """The database was used by a newer version of MLBench than this one."""


class OlderSchemaError(MLBenchError):
    """The database is too old for the migrations."""

    def __init__(self, newest: str) -> None:
        """Name the newest migration that the database has had."""
        super().__init__(
            f"the database is from before 22 November 2026 (its newest migration is {newest}): "
            "open it once with MLBench of that day (commit 9e7c7f36), then with this version"
        )


def bring_up_to_date(opened: Database, tables: Sequence[Any], folder: Path = FOLDER) -> None:
    """Create the tables of an empty database, or run the migrations that it lacks.

    All or nothing, and by one process at a time: the others wait, and find the work done.

    Raises:
        NewerSchemaError: the database has had migrations that are unknown here.
        OlderSchemaError: the database is from before 22 November 2026.
    """
    runner = Runner(opened, str(folder))
    with _unchecked_references(opened), exclusive(SCHEMA):
        if not tables[0].table_exists():
            opened.create_tables(tables)
            runner.fake()
            return
        last_known = max(migration.name for migration in runner.migrations())
        newest = max(runner.applied(), default="")
        if newest > last_known:
            raise NewerSchemaError(
                f"the database is newer than this version of MLBench, which does not know its "
                f"migration {newest}: install the version that used it last, or restore a "
                "copy from before"
            )
        with _lasting_ids(opened):
            runner.up()


@contextmanager
def _unchecked_references(opened: Database) -> Iterator[None]:
    """Let SQLite replace a table without deleting the rows that refer to it."""
    if not isinstance(opened, SqliteDatabase):
        yield
        return
    # This has an effect outside of transactions only.
    opened.pragma("foreign_keys", 0)
    try:
        yield
    finally:
        opened.pragma("foreign_keys", 1)


@contextmanager
def _lasting_ids(opened: Database) -> Iterator[None]:
    """Keep the highest id that each of SQLite's tables ever had, which a replaced table forgets."""
    used = []
    if isinstance(opened, SqliteDatabase) and "sqlite_sequence" in opened.get_tables():
        used = opened.execute_sql("SELECT name, seq FROM sqlite_sequence").fetchall()
    yield
    for name, last in used:
        opened.execute_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        opened.execute_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))


def add_missing(migrator: SchemaMigrator, db: Database, models: Sequence[Any]) -> None:
    """Add the tables, columns and indexes of these models that the database lacks."""
    existing = set(db.get_tables())
    for model in models:
        table = model._meta.table_name
        if table in existing:
            columns = {column.name for column in db.get_columns(table)}
            fields = [f for f in model._meta.sorted_fields if f.column_name not in columns]
            migrator.migrate(*(migrator.add_column(table, f.column_name, f) for f in fields))
    with db.bind_ctx(models):
        db.create_tables(models)
