"""The tables: runs and their ranks, workers and pods, streams, and what Prometheus cannot hold."""

import json
from typing import Any

from peewee import (
    SQL,
    AutoField,
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    CompositeKey,
    Context,
    Database,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    Model,
    NodeList,
    SqliteDatabase,
    TextField,
)

from master.database import connect, connect_tables, database
from master.migrations import bring_up_to_date


class LastingIdField(AutoField):
    """A number that is never used again, also after its row was deleted."""

    def ddl(self, ctx: Context) -> NodeList:
        """Return the column's definition; only SQLite has to be told."""
        definition = super().ddl(ctx)
        on_sqlite = isinstance(database.obj, SqliteDatabase)
        return NodeList((definition, SQL("AUTOINCREMENT"))) if on_sqlite else definition


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

    # Series outlive runs.
    id = LastingIdField()
    job_id = CharField()
    name = CharField()
    benchmark = CharField()
    """The official task; empty where ``command`` says what to run."""
    args = JSONField()
    image = TextField(default="")
    command = TextField(default="")
    """With ``{hosts}``, ``{rank}``, ``{run_id}`` and ``{backend}`` to be filled in."""
    working_dir = TextField(null=True)
    """The folder that ``command`` starts in; null for the agent's own."""
    backend = CharField(default="gloo")
    run_all_nodes = BooleanField(default=True)
    """Whether every rank runs the command, or rank 0 alone."""
    num_workers = IntegerField()
    num_cpus = DoubleField(null=True)
    max_bandwidth = DoubleField(null=True)
    """Mbit/s that a worker may send."""
    gpu_enabled = BooleanField(default=False)
    light_target = BooleanField(default=False)
    seed = BigIntegerField(null=True)
    max_restarts = IntegerField(default=0)
    deadline_seconds = DoubleField(null=True)
    """After its start, when training shall end; null for a run without one."""

    state = CharField(index=True)
    attempt = IntegerField(default=0)
    stop_requested = BooleanField(default=False)
    reason = TextField(default="")
    waiting = TextField(null=True)
    """What it waits for, before it begins or between attempts; null once it goes on."""
    created_at = DoubleField()
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True, index=True)

    goal = JSONField(null=True)
    """``{"metric", "value", "lower_is_better"}``, or null."""
    goal_reached_at = DoubleField(null=True)
    """When a recorded value reached the goal first."""
    goal_train_seconds = DoubleField(null=True)
    """Training time until then, evaluation left out; null where it was not recorded."""
    settings = JSONField(null=True)
    """What the task runs with, by name, or null until it says so."""
    redeliveries = IntegerField(default=0)
    """How often all samples were delivered again, as Prometheus had lost some."""
    refused = JSONField(null=True)
    """``{"first", "samples", "most"}`` of the series beyond those that it may have, or null."""
    delivery = JSONField(null=True)
    """``{"recorded", "in_prometheus", "kept"}`` once every stream is complete, or null."""
    settled_at = DoubleField(null=True, index=True)
    """When its samples were counted for the last time, an hour after its end; null until then."""

    @property
    def command_flags(self) -> list[str]:
        """The options that MLBench adds to a user's command."""
        flags = {"--gpu": self.gpu_enabled, "--light": self.light_target}
        return [flag for flag, wanted in flags.items() if wanted]


class Rank(_Table):
    """One rank of one attempt: which worker runs it, and how it went."""

    run = ForeignKeyField(Run, backref="ranks", on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    worker = CharField()
    pod_uid = CharField(null=True)
    """What tells its pod from a later one of the same name; null where pods have none."""
    image = TextField(null=True)
    """The image, with its digest, that the pod runs; null where it runs none."""
    assignment = JSONField()
    """What the agent is told to start."""
    assigned_at = DoubleField()
    reported = BooleanField(default=False)
    """Whether the agent has said that it has this assignment."""
    reported_at = DoubleField(null=True)
    """When it said so first; when the process exited, if it ran too short a time for that."""
    stop = BooleanField(default=False)
    exit_code = IntegerField(null=True)
    exited_at = DoubleField(null=True)
    """When it exited; when it was last heard of, if it is lost."""
    lost = TextField(default="")
    """Why it was written off, for good; empty for a rank that was not."""
    failure = TextField(default="")
    """Why it has failed, however its process ends, as its agent says; empty if it has not."""
    machine = JSONField(null=True)
    """What it ran on and with, as its agent states it; null until then."""

    class Meta:
        indexes = ((("run", "attempt", "rank"), True),)


class Worker(_Table):
    """An agent: what it said last."""

    name = CharField(primary_key=True)
    state = CharField()
    run_id = IntegerField(null=True)
    attempt = IntegerField(null=True)
    ip = CharField()
    pod_uid = CharField(default="")
    """Of the pod that it is in; empty where pods have none."""
    seen_at = DoubleField()
    """When that was."""
    heard = BigIntegerField(default=0)
    """How many seconds the master had heard then (``master/hearing.py``)."""


class Hearing(_Table):
    """For how long the master has heard its agents: a single row."""

    id = IntegerField(primary_key=True)
    seconds = BigIntegerField()
    since = BigIntegerField()
    """How many seconds there were when the last pause ended."""


class Pod(_Table):
    """A worker pod, as the pool sees it."""

    name = CharField(primary_key=True)
    uid = CharField(default="")
    """What tells it from a later one of the same name; empty where names are not used again."""
    phase = CharField()
    ip = CharField()
    node = CharField()
    labels = JSONField()


class Stream(_Table):
    """An append-only stream of bytes: a rank's stdout, stderr or metrics, or posted samples.

    ``owner`` is ``run/7`` or ``pod/NAME``. Posted samples have attempt 0 and rank -1.
    """

    id = AutoField()
    owner = TextField()
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
    gap_start = BigIntegerField(default=0)
    """Where what was left out of a long log begins; 0 where nothing was."""
    gap_end = BigIntegerField(default=0)
    """Where it ends. Chunks in between count for nothing, and are about to go."""

    class Meta:
        indexes = ((("owner", "attempt", "rank", "name"), True),)


# The few with something to deliver, among those of all runs that ever were.
Stream.add_index(
    Stream.index(Stream.name, where=Stream.delivered < Stream.size, name="stream_waiting")
)


class Chunk(_Table):
    """A piece of a stream. Those of samples are the spool, and go once their run is settled."""

    stream = ForeignKeyField(Stream, backref="chunks", on_delete="CASCADE")
    offset = BigIntegerField()
    data = BlobField()

    class Meta:
        primary_key = CompositeKey("stream", "offset")


class Series(_Table):
    """A series that Prometheus has: how much of it, from when to when. ``rank`` may be empty."""

    owner = TextField()
    metric = TextField()
    rank = TextField()
    first_ms = BigIntegerField()
    last_ms = BigIntegerField()
    samples = BigIntegerField(default=0)
    """How many samples were delivered to Prometheus."""

    class Meta:
        primary_key = CompositeKey("owner", "metric", "rank")


class SeriesName(_Table):
    """A series that its owner may have: it has so many, and is given no more."""

    owner = TextField()
    metric = TextField()
    rank = TextField()

    class Meta:
        primary_key = CompositeKey("owner", "metric", "rank")


class KeptSample(_Table):
    """A sample that Prometheus cannot hold: a text, a time that it refuses, a second in one ms."""

    id = BigAutoField()
    owner = TextField()
    metric = TextField()
    rank = TextField()
    time_us = BigIntegerField()
    value = TextField()
    cumulative = BooleanField(null=True)
    metadata = JSONField(null=True)

    class Meta:
        indexes = ((("owner", "metric", "rank", "time_us"), False),)


class Detail(_Table):
    """What posted samples carry that Prometheus has no place for, a batch of one series a row."""

    id = BigAutoField()
    owner = TextField()
    metric = TextField()
    rank = TextField()
    first_ms = BigIntegerField()
    last_ms = BigIntegerField()
    samples = JSONField()
    """``[[time_us, cumulative, metadata], …]`` in order of time; null for what was not given."""

    class Meta:
        indexes = ((("owner", "metric", "rank", "last_ms"), False),)


class PostedBody(_Table):
    """A body that was posted and stored: the same one again adds nothing."""

    owner = TextField()
    digest = BlobField()

    class Meta:
        primary_key = CompositeKey("owner", "digest")


class Deletion(_Table):
    """An owner that was deleted, as long as rows of it are left to be swept."""

    owner = TextField(primary_key=True)


TABLES = (
    *(Run, Rank, Worker, Hearing, Pod, Stream, Chunk),
    *(Series, SeriesName, KeptSample, Detail, PostedBody),
    Deletion,
)

# What belongs to an owner, and goes with it.
OWNED = (Stream, Series, SeriesName, KeptSample, Detail, PostedBody)


def open_database(url: str, reserve_bytes: int = 0) -> Database:
    """Connect the tables to a database, and bring it up to date.

    ``reserve_bytes`` on SQLite's disk are set aside for writing the state of runs.

    Raises:
        DatabaseURLError: it is none that can be used.
        NewerSchemaError: a newer version of MLBench has used it.
    """
    opened = connect(url, reserve_bytes)
    connect_tables(opened)
    bring_up_to_date(opened, TABLES)
    return opened


def run_owner(run_id: int) -> str:
    """Return the owner of a run's streams and samples."""
    return f"run/{run_id}"


def deleted_owner(owner: str) -> str:
    """Return whose the streams of a deleted owner are until they are swept: nobody finds them."""
    return f"deleted/{owner}"


def find_run(owner: str) -> Run | None:
    """Return the run that owns; nothing for a pod, or for a run that was deleted."""
    kind, _, run_id = owner.partition("/")
    found: Run | None = Run.get_or_none(Run.id == int(run_id)) if kind == "run" else None
    return found


def pod_owner(pod: str) -> str:
    """Return the owner of the samples posted for a pod."""
    return f"pod/{pod}"
