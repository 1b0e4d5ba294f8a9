"""Runs keep the figures of their result."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "figures", TextField(null=True)))
