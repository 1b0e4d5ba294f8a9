"""Workers may have several processes, a rank each."""

from peewee import Database, IntegerField, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add a column to runs and one to ranks."""
    migrator.migrate(
        migrator.add_column("run", "stated_world_size", IntegerField(null=True)),
        migrator.add_column("rank", "processes", TextField(null=True)),
    )
