"""Joining tokens have rows, so that they can be listed, revoked and limited."""

from peewee import CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator


class JoinToken(Model):
    """The table as it was then."""

    holder = CharField(primary_key=True)
    name = CharField(default="")
    created_at = DoubleField(null=True)
    expires_at = DoubleField()
    revoked_at = DoubleField(null=True)
    last_used_at = DoubleField(null=True)
    runs = IntegerField(default=0)
    recent_runs = DoubleField(default=0)
    recent_at = DoubleField(default=0)

    class Meta:
        table_name = "jointoken"


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Create the table."""
    with db.bind_ctx([JoinToken]):
        db.create_tables([JoinToken])
