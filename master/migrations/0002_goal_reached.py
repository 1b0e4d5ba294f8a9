"""When a run reached its goal first, and after how much training.

Of older runs that is not known any more.
"""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the two columns."""
    migrator.migrate(
        migrator.add_column("run", "goal_reached_at", DoubleField(null=True)),
        migrator.add_column("run", "goal_train_seconds", DoubleField(null=True)),
    )
