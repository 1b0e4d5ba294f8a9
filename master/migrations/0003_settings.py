"""What a run's task runs with. Of older runs that is not known any more."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("run", "settings", TextField(null=True)))
