"""When a run's samples were counted for the last time. Of runs that have ended, they were."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator

_ENDED = "UPDATE run SET settled_at = finished_at WHERE state NOT IN ('INITIALIZED', 'STARTED')"


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column, and an index on it."""
    migrator.migrate(
        migrator.add_column("run", "settled_at", DoubleField(null=True)),
        migrator.add_index("run", ("settled_at",)),
    )
    db.execute_sql(_ENDED)
