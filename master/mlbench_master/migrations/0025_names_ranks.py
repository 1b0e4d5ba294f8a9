"""Streams say whether their samples may be of other ranks; of those before, nobody knows."""

from peewee import BooleanField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("stream", "names_ranks", BooleanField(default=True)))
