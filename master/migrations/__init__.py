"""Migrations: bring the schema of an older database up to date, one numbered file after the other.

A file ``NNNN_what.py`` here has a function ``up(migrator, db)``, which changes the tables of the
version before into what ``master/models.py`` says now. It runs once in each database, and is never
changed after its release.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peewee import Database, SqliteDatabase
from playhouse.migrations import Runner

from master.database import exclusive
from mlbench.errors import MLBenchError

FOLDER = Path(__file__).parent
# The key of `exclusive` that a migration runs under.
SCHEMA = "schema"


class NewerSchemaError(MLBenchError):
    """The database was used by a newer version of MLBench than this one."""


def bring_up_to_date(opened: Database, tables: Sequence[Any], folder: Path = FOLDER) -> None:
    """Create the tables of an empty database, or run the migrations that it lacks.

    All or nothing, and by one process at a time: the others wait, and find the work done.

    Raises:
        NewerSchemaError: the database has had migrations that are unknown here.
    """
    runner = Runner(opened, str(folder))
    with _unchecked_references(opened), exclusive(SCHEMA):
        unknown = sorted(runner.applied().keys() - {one.name for one in runner.migrations()})
        if unknown:
            raise NewerSchemaError(
                f"the database is newer than this version of MLBench, which does not know its "
                f"migration {unknown[-1]}: install the version that used it last, or restore a "
                "copy from before"
            )
        if tables[0].table_exists():
            runner.up()
        else:
            opened.create_tables(tables)
            runner.fake()


@contextmanager
def _unchecked_references(opened: Database) -> Iterator[None]:
    """Let a table be replaced without what refers to it being deleted, as SQLite does."""
    if not isinstance(opened, SqliteDatabase):
        yield
        return
    # This works outside of transactions only.
    opened.pragma("foreign_keys", 0)
    try:
        yield
    finally:
        opened.pragma("foreign_keys", 1)
