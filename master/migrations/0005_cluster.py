"""What runs wait for, and the pods of their ranks. Of older ranks those are not known any more."""

from peewee import CharField, Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns."""
    migrator.migrate(
        migrator.add_column("run", "waiting", TextField(null=True)),
        migrator.add_column("rank", "ip", CharField(null=True)),
        migrator.add_column("rank", "image", TextField(null=True)),
    )
