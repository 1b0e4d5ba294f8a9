"""Columns, tables and an index of 25 to 28 November 2026.

They had migrations 0013 to 0024 of other names, of which a database of those days may have any.
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

from mlbench_master.database.models import LastingIdField
from mlbench_master.migrations import add_missing


class Run(Model):
    """The columns that were added to runs, and the key that other tables refer to."""

    id = LastingIdField()
    by_default = BooleanField(default=False)
    launcher = CharField(default="")
    job_key = TextField(null=True, index=True)
    title = TextField(default="")
    tags = TextField(default="[]")
    note = TextField(default="")
    faults = TextField(null=True)
    injected = TextField(default="[]")
    room_at = DoubleField(null=True)


class Pod(Model):
    """The column that was added to pods."""

    name = CharField(primary_key=True)
    external = BooleanField(default=False)


class Worker(Model):
    """The columns that were added to workers."""

    name = CharField(primary_key=True)
    fork_server = BooleanField(default=False)
    resources = TextField(null=True)


class Rank(Model):
    """The index that was added to ranks."""

    run = ForeignKeyField(Run, on_delete="CASCADE")
    worker = CharField()

    class Meta:
        indexes = ((("run", "worker"), False),)


class DeletedRun(Model):
    """The table of deleted runs whose series are still in Prometheus."""

    run_id = IntegerField(primary_key=True)
    deleted_at = DoubleField()
    once = BooleanField(default=False)


class Autopsy(Model):
    """The table of hang diagnoses."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    attempt = IntegerField()
    reason = CharField()
    asked_at = DoubleField()
    native_rank = IntegerField(null=True)


class RankEvidence(Model):
    """The table of the evidence of each rank for a diagnosis."""

    autopsy = ForeignKeyField(Autopsy, on_delete="CASCADE")
    rank = IntegerField()
    evidence = TextField()

    class Meta:
        primary_key = CompositeKey("autopsy", "rank")


class Profile(Model):
    """The table of profiles."""

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
    """Add the columns, the tables and the index that the database lacks."""
    tables = [Run, Pod, Worker, Rank, DeletedRun, Autopsy, RankEvidence, Profile]
    add_missing(migrator, db, tables)
