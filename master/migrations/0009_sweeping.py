"""What is left out of long logs, and what was deleted but not yet swept. So far, nothing was."""

from peewee import BigIntegerField, Database, Model, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns and the table."""
    migrator.migrate(
        migrator.add_column("stream", "gap_start", BigIntegerField(default=0)),
        migrator.add_column("stream", "gap_end", BigIntegerField(default=0)),
    )

    class Deletion(Model):
        owner = TextField(primary_key=True)

        class Meta:
            database = db

    db.create_tables([Deletion])
