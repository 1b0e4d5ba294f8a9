"""Runs say when a recording arrived, because its end is the exit of its ranks."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "shipped_at", DoubleField(null=True)))
