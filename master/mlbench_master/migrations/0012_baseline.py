"""Columns and tables of 22 to 25 November 2026, which had migrations 0001 to 0011.

A database of those days may have any of them.
"""

from peewee import (
    BooleanField,
    CharField,
    Database,
    DoubleField,
    IntegerField,
    Model,
    TextField,
)
from playhouse.migrate import SchemaMigrator

from mlbench_master.migrations import OlderSchemaError, add_missing

# The last migrations before the first schema from which this one can be reached.
_KNOWN = {"0011_series_limit", "0001_baseline"}


class Run(Model):
    """The columns that were added to runs."""

    steady_clock = TextField(null=True)
    clock_set_seconds = DoubleField(default=0.0)
    energy_joules = DoubleField(null=True)
    archive = TextField(null=True)
    archive_sha256 = TextField(null=True)
    archive_problem = TextField(default="")
    sealed_at = DoubleField(null=True, index=True)
    origin = TextField(null=True)
    set_name = CharField(null=True, index=True)
    place = IntegerField(null=True)
    display_name = CharField(default="")
    delete_requested = BooleanField(default=False)
    stated_world_size = IntegerField(null=True)
    latency_ms = DoubleField(null=True)
    loss_percent = DoubleField(null=True)
    swept = TextField(default="{}")
    figures = TextField(null=True)
    added = TextField(null=True)
    not_finite = TextField(null=True)


class Rank(Model):
    """The columns that were added to ranks."""

    disturbance = TextField(null=True)
    clock_ahead = DoubleField(default=0.0)
    dated_before = DoubleField(default=0.0)
    dated_ahead = DoubleField(default=0.0)
    processes = TextField(null=True)


class Deletion(Model):
    """The column that was added to deletions."""

    owner = TextField(primary_key=True)
    archived = BooleanField(default=False)


class RunSet(Model):
    """The table of benchmark sets."""

    name = CharField(primary_key=True)
    created_at = DoubleField()
    official = BooleanField()
    until_percent = DoubleField(null=True)
    order = TextField()
    places = TextField()
    deleted = TextField()


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Add the columns and the table that the database lacks."""
    names = {name for (name,) in db.execute_sql("SELECT name FROM schema_migration").fetchall()}
    if not names & _KNOWN:
        raise OlderSchemaError(max(names, default="none"))
    add_missing(migrator, db, [Run, Rank, Deletion, RunSet])
