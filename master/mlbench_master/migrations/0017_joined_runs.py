"""Runs whose processes somebody else starts, and the pods that stand for their ranks."""

from peewee import BooleanField, CharField, Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "launcher", CharField(default="")),
        migrator.add_column("run", "job_key", TextField(null=True, index=True)),
        migrator.add_column("pod", "external", BooleanField(default=False)),
        migrator.add_column("worker", "resources", TextField(null=True)),
    )
