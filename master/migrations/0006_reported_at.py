"""When the process of a rank began to run. Of older ranks that is not known any more."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("rank", "reported_at", DoubleField(null=True)))
