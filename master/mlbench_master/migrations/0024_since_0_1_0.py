"""What the schema has had since 0.1.0, the first release.

A database from the days before this migration has it already, by migrations of its own.
"""

from peewee import (
    BlobField,
    BooleanField,
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

_LAST_BEFORE = "0024_native_rank"


class Run(Model):
    """What the tables refer to."""

    id = LastingIdField()


# The tables as they were then.


class DeletedRun(Model):
    """A run whose series are left to be deleted in Prometheus."""

    run_id = IntegerField(primary_key=True)
    deleted_at = DoubleField()
    once = BooleanField(default=False)


class Autopsy(Model):
    """When a run was asked why it does not go on."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    attempt = IntegerField()
    reason = CharField()
    asked_at = DoubleField()
    native_rank = IntegerField(null=True)


class RankEvidence(Model):
    """What a rank has answered."""

    autopsy = ForeignKeyField(Autopsy, on_delete="CASCADE")
    rank = IntegerField()
    evidence = TextField()

    class Meta:
        primary_key = CompositeKey("autopsy", "rank")


class Profile(Model):
    """When a rank was asked for a profile, and what its agent brought."""

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
    """Add columns, an index and tables."""
    if (_LAST_BEFORE,) in db.execute_sql("SELECT name FROM schema_migration").fetchall():
        return
    add = migrator.add_column
    migrator.migrate(
        add("run", "by_default", BooleanField(default=False)),
        add("run", "launcher", CharField(default="")),
        add("run", "job_key", TextField(null=True, index=True)),
        add("run", "title", TextField(default="")),
        add("run", "tags", TextField(default="[]")),
        add("run", "note", TextField(default="")),
        add("run", "faults", TextField(null=True)),
        add("run", "injected", TextField(default="[]")),
        add("run", "room_at", DoubleField(null=True)),
        add("pod", "external", BooleanField(default=False)),
        add("worker", "fork_server", BooleanField(default=False)),
        add("worker", "resources", TextField(null=True)),
        migrator.add_index("rank", ("run_id", "worker")),
    )
    tables = [DeletedRun, Autopsy, RankEvidence, Profile]
    with db.bind_ctx([Run, *tables]):
        db.create_tables(tables)
