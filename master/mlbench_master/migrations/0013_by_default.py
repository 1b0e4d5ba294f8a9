"""Runs know whether their order named what to run."""

from peewee import BooleanField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "by_default", BooleanField(default=False)))
