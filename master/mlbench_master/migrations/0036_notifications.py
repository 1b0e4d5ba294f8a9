"""Ends and hangs of runs are sent to a webhook, each once."""

from peewee import CharField, Database, DoubleField, ForeignKeyField, IntegerField, Model
from playhouse.migrate import SchemaMigrator


class Run(Model):
    """The table that the new one refers to."""


class Notification(Model):
    """The table as it was then."""

    run = ForeignKeyField(Run, on_delete="CASCADE")
    attempt = IntegerField()
    event = CharField()
    at = DoubleField()
    sent_at = DoubleField(null=True, index=True)

    class Meta:
        indexes = ((("run", "attempt", "event"), True),)


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Create the table. Runs that ended before are not announced."""
    with db.bind_ctx([Run, Notification]):
        db.create_tables([Notification])
