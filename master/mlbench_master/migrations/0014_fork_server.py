"""Agents report whether their fork server is ready."""

from peewee import BooleanField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("worker", "fork_server", BooleanField(default=False)))
