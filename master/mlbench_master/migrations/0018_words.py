"""Title, tags and note of a run, which its user may change at any time."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "title", TextField(default="")),
        migrator.add_column("run", "tags", TextField(default="[]")),
        migrator.add_column("run", "note", TextField(default="")),
    )
