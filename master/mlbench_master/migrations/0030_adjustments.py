"""Runs say how their request was adapted, because the original client cannot ask for less."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "adjustments", TextField(default="")))
