"""Runs keep the figures of their result, what is added later, and when the loss went wrong."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "figures", TextField(null=True)),
        migrator.add_column("run", "added", TextField(null=True)),
        migrator.add_column("run", "not_finite", TextField(null=True)),
    )
