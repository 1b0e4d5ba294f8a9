"""Runs may ask for latency and loss of what their workers send."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "latency_ms", DoubleField(null=True)),
        migrator.add_column("run", "loss_percent", DoubleField(null=True)),
    )
