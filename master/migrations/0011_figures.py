"""Runs keep the figures of their result, and count what is added after their end."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "figures", TextField(null=True)),
        migrator.add_column("run", "added", TextField(null=True)),
    )
