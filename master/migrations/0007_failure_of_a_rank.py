"""Why a rank has failed though its process may have ended well. No older one says so."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the column."""
    migrator.migrate(migrator.add_column("rank", "failure", TextField(default="")))
