"""Runs have free names, and can be deleted while they go on."""

from peewee import BooleanField, CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "display_name", CharField(default="")),
        migrator.add_column("run", "delete_requested", BooleanField(default=False)),
    )
