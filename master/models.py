"""The tables: runs and their ranks, workers and pods, streams, and what Prometheus cannot hold."""

import json
from typing import Any

from peewee import (
    AutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    CompositeKey,
    Database,
    DatabaseProxy,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)
from playhouse.db_url import connect
from playhouse.sqlite_ext import AutoIncrementField

database = DatabaseProxy()

_SQLITE_PRAGMAS = {
    "journal_mode": "wal",  # readers and the one writer do not wait for each other
    "synchronous": "normal",  # a killed process loses nothing
    "busy_timeout": 30_000,
    "foreign_keys": 1,
}


class JSONField(TextField):
    """A value stored as JSON text."""

    def db_value(self, value: Any) -> str | None:
        """Return the JSON text."""
        return None if value is None else json.dumps(value)

    def python_value(self, value: str | None) -> Any:
        """Return what the JSON text says."""
        return None if value is None else json.loads(value)


class _Table(Model):
    class Meta:
        database = database


class Run(_Table):
    """One run of a benchmark, from its order to its end. Times are Unix seconds, UTC."""

    # Never used again, also after a deletion: series outlive runs.
    id = AutoIncrementField()
    job_id = CharField()
    name = CharField()
    benchmark = CharField()
    args = JSONField()
    num_workers = IntegerField()
    num_cpus = IntegerField(null=True)
    max_restarts = IntegerField(default=0)

    state = CharField(index=True)
    attempt = IntegerField(default=0)
    stop_requested = BooleanField(default=False)
    reason = TextField(default="")
    created_at = DoubleField()
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True)

    goal = JSONField(null=True)
    """``{"metric", "value", "lower_is_better"}``, or null."""
    delivery = JSONField(null=True)
    """``{"recorded", "in_prometheus", "kept"}`` once every stream is complete, or null."""


class Rank(_Table):
    """One rank of one attempt: which worker runs it, and how it went."""

    run = ForeignKeyField(Run, backref="ranks", on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    worker = CharField()
    assignment = JSONField()
    """What the agent is told to start."""
    assigned_at = DoubleField()
    reported = BooleanField(default=False)
    """Whether the agent has said that it has this assignment."""
    stop = BooleanField(default=False)
    exit_code = IntegerField(null=True)
    exited_at = DoubleField(null=True)
    """When it exited; when it was last heard of, if it is lost."""
    lost = TextField(default="")
    """Why it was written off, for good; empty for a rank that was not."""

    class Meta:
        indexes = ((("run", "attempt", "rank"), True),)


class Worker(_Table):
    """An agent: what it said last."""

    name = CharField(primary_key=True)
    state = CharField()
    run_id = IntegerField(null=True)
    attempt = IntegerField(null=True)
    ip = CharField()
    seen_at = DoubleField()


class Pod(_Table):
    """A worker pod, as the pool sees it."""

    name = CharField(primary_key=True)
    phase = CharField()
    ip = CharField()
    node = CharField()
    labels = JSONField()


class Stream(_Table):
    """An append-only stream of bytes: a rank's stdout, stderr or metrics, or posted samples.

    ``owner`` is ``run/7`` or ``pod/NAME``. Posted samples have attempt 0 and rank -1.
    """

    id = AutoField()
    owner = CharField()
    attempt = IntegerField()
    rank = IntegerField()
    name = CharField()
    size = BigIntegerField(default=0)
    """Bytes held: the offset of the next chunk."""
    final_size = BigIntegerField(null=True)
    """Bytes that there will be, once the process has ended."""
    delivered = BigIntegerField(default=0)
    """Bytes whose samples are in Prometheus or kept; always at the end of a line."""
    recorded = BigIntegerField(default=0)
    """Samples among the delivered bytes."""

    class Meta:
        indexes = ((("owner", "attempt", "rank", "name"), True),)


class Chunk(_Table):
    """A piece of a stream. Those of metrics are the spool, and go once they are delivered."""

    stream = ForeignKeyField(Stream, backref="chunks", on_delete="CASCADE")
    offset = BigIntegerField()
    data = BlobField()

    class Meta:
        primary_key = CompositeKey("stream", "offset")


class Series(_Table):
    """A series that Prometheus has: from when to when. ``rank`` may be empty."""

    owner = CharField()
    metric = CharField()
    rank = CharField()
    first_ms = BigIntegerField()
    last_ms = BigIntegerField()

    class Meta:
        primary_key = CompositeKey("owner", "metric", "rank")


class KeptSample(_Table):
    """A sample that Prometheus cannot hold: a text, a time that it refuses, a second in one ms."""

    owner = CharField(index=True)
    metric = CharField()
    rank = CharField()
    time_us = BigIntegerField()
    value = TextField()


TABLES = (Run, Rank, Worker, Pod, Stream, Chunk, Series, KeptSample)


def open_database(url: str) -> Database:
    """Connect the tables to a database, and create those that are missing."""
    pragmas = {"pragmas": _SQLITE_PRAGMAS} if url.startswith("sqlite") else {}
    opened: Database = connect(url, **pragmas)
    database.initialize(opened)
    opened.create_tables(TABLES)
    return opened


def run_owner(run_id: int) -> str:
    """Return the owner of a run's streams and samples."""
    return f"run/{run_id}"


def pod_owner(pod: str) -> str:
    """Return the owner of the samples posted for a pod."""
    return f"pod/{pod}"
