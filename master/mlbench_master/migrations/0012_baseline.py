"""The schema of 0.1.0, the first release: a new database has it without a migration.

So has one from the last days before the release, which came there by migrations of its own.
"""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from mlbench.errors import MLBenchError

_LAST_BEFORE = "0011_figures"


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Forget the migrations before the release, whose result this is."""
    history = "schema_migration"
    found = db.execute_sql(f"SELECT name FROM {history}").fetchall()  # noqa: S608
    if (_LAST_BEFORE,) not in found:
        raise MLBenchError(
            "the database is from before MLBench 0.1.0, and cannot be brought up to date: "
            "delete it, or name another one in $DATABASE_URL"
        )
    db.execute_sql(f"DELETE FROM {history}")  # noqa: S608
