"""Why runs do not go on: when they were asked, and what their ranks answered."""

from peewee import (
    CharField,
    CompositeKey,
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


class Autopsy(Model):
    """The table as it was then."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    attempt = IntegerField()
    reason = CharField()
    asked_at = DoubleField()


class RankEvidence(Model):
    """The table as it was then."""

    autopsy = ForeignKeyField(Autopsy, on_delete="CASCADE")
    rank = IntegerField()
    evidence = TextField()

    class Meta:
        primary_key = CompositeKey("autopsy", "rank")


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the tables."""
    with db.bind_ctx([Run, Autopsy, RankEvidence]):
        db.create_tables([Autopsy, RankEvidence])
