"""Ranks get what kept them from their cores, as their agents state it."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("rank", "disturbance", TextField(null=True)))
