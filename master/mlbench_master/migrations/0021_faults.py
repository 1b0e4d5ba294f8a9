"""Runs in which failures are injected."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "faults", TextField(null=True)),
        migrator.add_column("run", "injected", TextField(default="[]")),
    )
