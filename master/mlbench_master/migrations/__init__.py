"""Migrations: bring the schema of an older database up to date when it is opened.

A new table or column is in ``models.py``, from which new databases are made, and in a file
``NNNN_what.py`` here, whose function ``up(migrator, db)`` changes those that there are. It runs
once in each database, and never changes after its release.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peewee import Database, SqliteDatabase
from playhouse.migrations import Runner

from mlbench.errors import MLBenchError
from mlbench_master.database import exclusive

FOLDER = Path(__file__).parent
# The key of `exclusive` that migrations run under.
SCHEMA = "schema"


class NewerSchemaError(MLBenchError):
    """The database was used by a newer version of MLBench than this one."""


def bring_up_to_date(opened: Database, tables: Sequence[Any], folder: Path = FOLDER) -> None:
    """Create the tables of an empty database, or run the migrations that it lacks.

    All or nothing, and by one process at a time: the others wait, and find the work done.

    Raises:
        NewerSchemaError: the database has had migrations that are unknown here.
        MLBenchError: it is older than the first release.
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
