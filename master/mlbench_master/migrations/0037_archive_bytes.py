"""Runs know the size of their archives, so that the space that they use can be limited."""

from peewee import BigIntegerField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column. The controller measures the archives of older runs."""
    migrator.migrate(migrator.add_column("run", "archive_bytes", BigIntegerField(null=True)))
