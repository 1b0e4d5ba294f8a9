"""Autopsies of which one rank's frames of C are asked for."""

from peewee import Database, IntegerField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("autopsy", "native_rank", IntegerField(null=True)))
