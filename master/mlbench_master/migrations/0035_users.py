"""Runs and sets have a user, tokens a role, and stops and deletions an author."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns. The users of older runs are unknown."""
    migrator.migrate(
        migrator.add_column("run", "user_name", CharField(default="", index=True)),
        migrator.add_column("run", "stopped_by", CharField(default="")),
        migrator.add_column("runset", "user_name", CharField(default="")),
        migrator.add_column("deletedrun", "deleted_by", CharField(default="")),
        migrator.add_column("jointoken", "role", CharField(default="record")),
    )
