"""Profiles: when ranks were asked for them, and what their agents brought."""

from peewee import (
    BlobField,
    CharField,
    Database,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)
from playhouse.migrate import SchemaMigrator

from mlbench_master.models import LastingIdField


class Run(Model):
    """What the table refers to."""

    id = LastingIdField()


class Profile(Model):
    """The table as it was then."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    attempt = IntegerField()
    rank = IntegerField()
    seconds = IntegerField()
    asked_at = DoubleField()
    recorded = TextField(null=True)
    size = IntegerField(default=0)
    sha256 = CharField(default="")
    content = BlobField(null=True)


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the table."""
    with db.bind_ctx([Run, Profile]):
        db.create_tables([Profile])
