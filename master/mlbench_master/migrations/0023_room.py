"""Runs know when they no longer waited for others, but for workers."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "room_at", DoubleField(null=True)))
