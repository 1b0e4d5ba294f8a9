"""Benchmark sets, and the place of a run in one."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the table of sets, and two columns to runs."""

    class RunSet(Model):
        name = CharField(primary_key=True)
        created_at = DoubleField()
        official = BooleanField()
        until_percent = DoubleField(null=True)
        order = TextField()
        places = TextField()
        deleted = TextField()

        class Meta:
            database = db

    db.create_tables([RunSet])
    migrator.migrate(
        migrator.add_column("run", "set_name", CharField(null=True, index=True)),
        migrator.add_column("run", "place", IntegerField(null=True)),
    )
