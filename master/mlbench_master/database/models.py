"""The tables: runs and ranks, workers and pods, streams, and samples outside of Prometheus."""

import json
from collections.abc import Sequence
from typing import Any, Self

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
    DatabaseError,
    DoubleField,
    Field,
    ForeignKeyField,
    IntegerField,
    Model,
    NodeList,
    OperationalError,
    SqliteDatabase,
    TextField,
)

from mlbench.contract.masking import mask_command
from mlbench.contract.pod_token import PodIdentity
from mlbench.evaluation.inputs import RankRow, RunRow
from mlbench_master.database.connection import (
    UnreachableDatabaseError,
    connect,
    database,
    explain,
    raise_if_damaged,
    run_sql,
)
from mlbench_master.migrations import bring_up_to_date
from mlbench_master.pools.base import is_same_pod


class LastingIdField(AutoField):
    """An id that is never used again, even after its row was deleted."""

    def ddl(self, ctx: Context) -> NodeList:
        """Return the column's definition, which SQLite alone needs to differ."""
        definition = super().ddl(ctx)
        on_sqlite = isinstance(database.obj, SqliteDatabase)
        return NodeList((definition, SQL("AUTOINCREMENT"))) if on_sqlite else definition


class JSONField(TextField):
    """A value stored as JSON text."""

    def db_value(self, value: Any) -> str | None:
        """Serialize."""
        return None if value is None else json.dumps(value)

    def python_value(self, value: str | None) -> Any:
        """Deserialize."""
        return None if value is None else json.loads(value)


class _Table(Model):
    class Meta:
        database = database

    @classmethod
    def rows(cls, where: str, *values: object) -> list[Self]:
        """Return the rows of a condition in SQL that has ``?`` for its values.

        For what is asked every second: composing a SELECT takes five times as long as running it,
        and so does peewee's own way to make rows of what comes.
        """
        cursor = run_sql(f'SELECT * FROM "{cls._meta.table_name}" WHERE {where}', *values)  # noqa: S608
        fields = [cls._meta.columns[name] for name, *_ in cursor.description]
        return [cls._made(fields, row) for row in cursor.fetchall()]

    @classmethod
    def _made(cls, fields: Sequence[Field], values: Sequence[Any]) -> Self:
        row = cls(__no_default__=1)
        for field, value in zip(fields, values, strict=True):
            row.__data__[field.name] = value if value is None else field.python_value(value)
        return row

    @classmethod
    def select_without(cls, *large: Field) -> Any:
        """Select rows without the columns that take room."""
        names = {one.name for one in large}
        return cls.select(*(one for one in cls._meta.sorted_fields if one.name not in names))


class Run(_Table):
    """One run of a benchmark. Times are Unix seconds."""

    # Its series outlive it.
    id = LastingIdField()
    job_id = CharField()
    name = CharField()
    """As Kubernetes takes names."""
    display_name = CharField(default="")
    """As it was ordered; empty for runs from before there were such names."""
    benchmark = CharField()
    """The official task; empty for a ``command``."""
    by_default = BooleanField(default=False)
    """Whether its order named nothing to run, so that it is the default task."""
    adjustments = TextField(default="")
    """How the request of the original client was adapted to the pool; empty if it was not."""
    args = JSONField()
    image = TextField(default="")
    command = TextField(default="")
    """May contain ``{hosts}``, ``{rank}``, ``{run_id}`` and ``{backend}``."""
    working_dir = TextField(null=True)
    """The folder in which ``command`` starts; null for the agent's own."""
    backend = CharField(default="gloo")
    run_all_nodes = BooleanField(default=True)
    """Whether all ranks run the command, or rank 0 alone."""
    num_workers = IntegerField()
    num_cpus = DoubleField(null=True)
    max_bandwidth = DoubleField(null=True)
    """Mbit/s that a worker may send."""
    latency_ms = DoubleField(null=True)
    loss_percent = DoubleField(null=True)
    gpu_enabled = BooleanField(default=False)
    light_target = BooleanField(default=False)
    seed = BigIntegerField(null=True)
    max_restarts = IntegerField(default=0)
    deadline_seconds = DoubleField(null=True)
    """When training shall end, after its start."""
    faults = TextField(null=True)
    """The failures that it was ordered with, as ``mlbench/contract/faults.py`` reads them."""
    injected = JSONField(default=list)
    """The fields of a ``records.InjectedFault`` for each, planned or ordered by hand."""
    set_name = CharField(null=True, index=True)
    place = IntegerField(null=True)
    """In the set, from 1 on."""
    swept = JSONField(default=dict)
    """The values of what the set sweeps, which its order has too."""
    launcher = CharField(default="")
    """Who starts its processes, such as slurm; empty for MLBench. The others are recorded runs."""
    job_key = TextField(null=True, index=True)
    """``HOLDER/KEY`` by which the processes of a recorded run find it; null for other runs."""

    state = CharField(index=True)
    attempt = IntegerField(default=0)
    stop_requested = BooleanField(default=False)
    delete_requested = BooleanField(default=False)
    """Whether it is deleted once it has ended; ``stop_requested`` then too."""
    reason = TextField(default="")
    waiting = TextField(null=True)
    """What it waits for, before it begins or between attempts."""
    created_at = DoubleField()
    room_at = DoubleField(null=True)
    """When it no longer waited for other runs, if workers were not there then."""
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True, index=True)
    """When its last rank exited; when the master ended it, if an exit is unknown."""
    shipped_at = DoubleField(null=True)
    """When the last data of a recording arrived, if that was well after its end."""
    steady_clock = JSONField(null=True)
    """``{"boot", "seconds"}``: what the steady clock of the master's machine said at its start."""
    clock_set_seconds = DoubleField(default=0.0)
    """By how much the master's clock was set while it ran; its times are as if it had not been."""

    goal = JSONField(null=True)
    """``{"metric", "value", "lower_is_better"}``"""
    goal_reached_at = DoubleField(null=True)
    """When a recorded value first reached the goal."""
    goal_train_seconds = DoubleField(null=True)
    """Training time until then, without evaluation."""
    not_finite = JSONField(null=True)
    """``{"metric", "rank", "step", "since"}``: since when a loss is no finite number."""
    settings = JSONField(null=True)
    """The settings that the task has stated, by name."""
    stated_world_size = IntegerField(null=True)
    """How many processes train, as they have stated it; null for one in each worker."""
    redeliveries = IntegerField(default=0)
    """How often its samples were delivered again, as Prometheus had lost some."""
    refused = JSONField(null=True)
    """``{"first", "samples", "most"}``: the series beyond its limit."""
    not_recorded = JSONField(null=True)
    """Counts by the fields of ``records.NotRecorded``; ``refused_bytes`` by stream. Null: none."""
    delivery = JSONField(null=True)
    """``{"recorded", "in_prometheus", "kept"}``: its samples, counted at its end."""
    added = JSONField(null=True)
    """``{"samples", "of_lost_ranks", "first_at", "last_at", "archive", "sha256", "sealed"}``: the
    samples that came too late, when they came, their archive, and how many samples that has."""
    figures = JSONField(null=True)
    """What its result says in numbers, computed at its end (``mlbench/evaluation/result.py``)."""
    settled_at = DoubleField(null=True, index=True)
    """When its samples were counted for the last time, an hour after its end."""
    energy_joules = DoubleField(null=True)
    """What its GPUs used while it ran, measured when it was sealed; null if that is not known."""
    archive = TextField(null=True)
    """The file name of its archive."""
    archive_sha256 = TextField(null=True)
    archive_problem = TextField(default="")
    """Why it has none, or an old one, though it has ended."""
    sealed_at = DoubleField(null=True, index=True)
    """When its archive was written, or was found to be impossible; null while one is due."""

    title = TextField(default="")
    """What its user calls it; empty for its own name. These three change at any time, and are no
    part of the evidence."""
    tags = JSONField(default=list)
    """In order, each once."""
    note = TextField(default="")
    """Markdown."""

    origin = JSONField(null=True)
    """``{"installation", "run_id", "imported_at"}`` of an imported run; null for one's own."""

    @property
    def row(self) -> RunRow:
        """What it is evaluated by."""
        return RunRow.from_fields(self.__data__)

    @property
    def shown_command(self) -> str:
        """The command with its secrets masked, for everything except the workers that run it."""
        return mask_command(self.command)

    @property
    def world_size(self) -> int:
        """How many processes train, a rank each."""
        return self.stated_world_size or self.num_workers

    @property
    def own_name(self) -> str:
        """The name that it was ordered with."""
        return self.display_name or self.name

    @property
    def command_flags(self) -> list[str]:
        """The options that MLBench adds to a user's command."""
        flags = {"--gpu": self.gpu_enabled, "--light": self.light_target}
        return [flag for flag, wanted in flags.items() if wanted]


class RunSet(_Table):
    """A benchmark set: what is to be run, registered before its first run."""

    name = CharField(primary_key=True)
    created_at = DoubleField()
    official = BooleanField()
    until_percent = DoubleField(null=True)
    order = JSONField()
    """What all of its runs are ordered with."""
    places = JSONField()
    """``[{"num_workers", "seed"}, …]`` in their order, with ``swept`` in a sweep."""
    deleted = JSONField(default=list)
    """What the ledger keeps of its deleted runs: the fields of a ``ledger.Entry``."""


class Rank(_Table):
    """One worker's part in an attempt: one rank, unless its command starts several processes."""

    run = ForeignKeyField(Run, backref="ranks", on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    worker = CharField()
    pod_uid = CharField(null=True)
    """Tells its pod from a later one of the same name; null where pods have no uid."""
    image = TextField(null=True)
    """The pod's image with its digest; null where it runs none."""
    assignment = JSONField()
    """The fields of an ``mlbench.contract.assignment.Assignment``."""
    assigned_at = DoubleField()
    reported = BooleanField(default=False)
    """Whether the agent has reported it."""
    reported_at = DoubleField(null=True)
    """When it did first, or the process exited, if that was sooner. A process that others start
    has begun before: then it is the beginning."""
    stop = BooleanField(default=False)
    exit_code = IntegerField(null=True)
    exited_at = DoubleField(null=True)
    """When it exited; when it was last heard of, if it is lost."""
    lost = TextField(default="")
    """Why it was given up; empty for a rank that was not."""
    clock_ahead = DoubleField(default=0.0)
    """By how many seconds the worker's clock is ahead of the run's time."""
    dated_before = DoubleField(default=0.0)
    """By how many seconds it has dated a value before its beginning, at most."""
    dated_ahead = DoubleField(default=0.0)
    """By how many seconds it has dated a value after it was received, at most."""
    failure = TextField(default="")
    """Why it has failed whatever its exit code, as its agent says; empty if it has not."""
    machine = JSONField(null=True)
    """What it ran on and with, as its agent has stated it."""
    disturbance = JSONField(null=True)
    """What kept it from its cores, as its agent has stated it."""
    processes = JSONField(null=True)
    """``{"ranks": [2, 3], "restarts": {"1": AT}}`` of a worker that has stated several."""

    @property
    def row(self) -> RankRow:
        """What it is evaluated by."""
        return RankRow.from_fields(self.__data__)

    @property
    def ranks(self) -> list[int]:
        """The ranks of its processes: its own, unless it has stated several."""
        return self.processes["ranks"] if self.processes else [self.rank]

    @classmethod
    def is_of_pod(cls, pod: PodIdentity, run_id: int, attempt: int, rank: int) -> bool:
        """Check if a rank was given to this pod, not to another one of its name."""
        its = "run_id = ? AND attempt = ? AND rank = ? AND worker = ?"
        ranks = cls.rows(its, run_id, attempt, rank, pod.name)
        return bool(ranks) and is_same_pod(ranks[0].pod_uid, pod.uid)

    LARGE = (assignment, machine, disturbance)

    class Meta:
        indexes = ((("run", "attempt", "rank"), True), (("run", "worker"), False))


class Autopsy(_Table):
    """A run was asked why it does not go on."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    reason = CharField()
    asked_at = DoubleField()
    native_rank = IntegerField(null=True)
    """The rank whose frames of C are asked for."""


class RankEvidence(_Table):
    """What a rank has answered to that."""

    autopsy = ForeignKeyField(Autopsy, on_delete="CASCADE")
    rank = IntegerField()
    evidence = JSONField()
    """The fields of an ``mlbench.contract.autopsy.Evidence``."""

    class Meta:
        primary_key = CompositeKey("autopsy", "rank")


class Profile(_Table):
    """What a rank spends some seconds on, as it was asked for."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    seconds = IntegerField()
    asked_at = DoubleField()
    recorded = JSONField(null=True)
    """The fields of ``mlbench.contract.profiles.Recorded``; null until its agent has brought it."""
    size = IntegerField(default=0)
    sha256 = CharField(default="")
    content = BlobField(null=True)
    """Its file, compressed; null if there is none. It takes room: who lists them leaves it out."""

    @property
    def file(self) -> str | None:
        """By which name its file is among those of the run; None if it has none."""
        if not self.recorded or self.recorded["problem"]:
            return None
        kind = "trace" if self.recorded["tool"] == "pytorch" else "speedscope"
        return f"profiles/{self.get_id()}.{kind}.json.gz"

    @classmethod
    def of_run(cls, run: Run, **its: int) -> "list[Profile]":
        """Return the profiles of a run, without their files; ``its`` may name attempt and rank."""
        listed = cls.select_without(cls.content).where(cls.run == run)
        return list(listed.filter(**its).order_by(cls.id))


class Worker(_Table):
    """The last report of an agent."""

    name = CharField(primary_key=True)
    state = CharField()
    run_id = IntegerField(null=True)
    attempt = IntegerField(null=True)
    ip = CharField()
    pod_uid = CharField(default="")
    """The uid of its pod; empty where pods have none."""
    fork_server = BooleanField(default=False)
    """Whether a process that has imported PyTorch is ready to be forked."""
    resources = JSONField(null=True)
    """What its rank uses, by name of the series; null where an exporter tells it."""
    seen_at = DoubleField()
    """When it came."""
    heard = BigIntegerField(default=0)
    """The reachable seconds then (``master/mlbench_master/runs/reachability.py``)."""


class Hearing(_Table):
    """The reachable seconds (``master/mlbench_master/runs/reachability.py``): a single row."""

    id = IntegerField(primary_key=True)
    seconds = BigIntegerField()
    since = BigIntegerField()
    """The same at the end of the last pause."""


class Pod(_Table):
    """A worker pod as the pool sees it, or what stands for a rank of a recorded run."""

    name = CharField(primary_key=True)
    uid = CharField(default="")
    """Tells it from a later pod of the same name; empty where pods have no uid."""
    phase = CharField()
    ip = CharField()
    node = CharField()
    labels = JSONField()
    external = BooleanField(default=False)
    """Whether it is of a recorded run, not of the pool."""


class JoinToken(_Table):
    """A joining token, by its holder. One that this master did not list has a row once used."""

    holder = CharField(primary_key=True)
    name = CharField(default="")
    """Who uses it, as its maker said."""
    created_at = DoubleField(null=True)
    """None if it was made without this list."""
    expires_at = DoubleField()
    revoked_at = DoubleField(null=True)
    last_used_at = DoubleField(null=True)
    runs = IntegerField(default=0)
    """Number of runs that processes with this token have ordered."""
    recent_runs = DoubleField(default=0)
    """Fill level of the bucket that limits the rate of new runs, as of ``recent_at``."""
    recent_at = DoubleField(default=0)


class Stream(_Table):
    """An append-only stream of bytes: a rank's stdout, stderr, metrics or files, or posted samples.

    ``owner`` is ``run/7``, ``added/7`` or ``pod/NAME``. Posted samples have attempt 0 and rank -1.
    """

    id = AutoField()
    owner = TextField()
    attempt = IntegerField()
    rank = IntegerField()
    name = CharField()
    size = BigIntegerField(default=0)
    """The bytes held, which is the offset of the next chunk."""
    final_size = BigIntegerField(null=True)
    """The size when it is complete, known once the process has ended."""
    delivered = BigIntegerField(default=0)
    """The bytes whose samples are in Prometheus or kept; always whole lines."""
    recorded = BigIntegerField(default=0)
    """The samples in these bytes."""
    gap_start = BigIntegerField(default=0)
    """Where the gap in a long log begins, of which only start and end are held; 0 without one."""
    gap_end = BigIntegerField(default=0)
    """Where the gap ends. Chunks in it are about to be deleted."""
    names_ranks = BooleanField(default=False)
    """Whether its samples may be of other ranks than its own."""

    class Meta:
        indexes = ((("owner", "attempt", "rank", "name"), True),)


# Finds the few streams that wait for delivery among those of all runs.
Stream.add_index(
    Stream.index(Stream.name, where=Stream.delivered < Stream.size, name="stream_waiting")
)


class Chunk(_Table):
    """A piece of a stream. Chunks of samples are the spool, deleted once their run is settled."""

    stream = ForeignKeyField(Stream, backref="chunks", on_delete="CASCADE")
    offset = BigIntegerField()
    data = BlobField()

    class Meta:
        primary_key = CompositeKey("stream", "offset")


class Series(_Table):
    """What Prometheus has of a series. ``rank`` may be empty."""

    owner = TextField()
    metric = TextField()
    rank = TextField()
    first_ms = BigIntegerField()
    last_ms = BigIntegerField()
    samples = BigIntegerField(default=0)
    """How many were delivered."""

    class Meta:
        primary_key = CompositeKey("owner", "metric", "rank")


class SeriesName(_Table):
    """A series that its owner has, of which there is a limit."""

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
    """The fields of samples that Prometheus cannot hold, for a batch of one series."""

    id = BigAutoField()
    owner = TextField()
    metric = TextField()
    rank = TextField()
    first_ms = BigIntegerField()
    last_ms = BigIntegerField()
    samples = JSONField()
    """``[[time_us, cumulative, metadata], …]`` in order of time."""

    class Meta:
        indexes = ((("owner", "metric", "rank", "last_ms"), False),)


class PostedBody(_Table):
    """The digest of a body that was posted: posting it again adds nothing."""

    owner = TextField()
    digest = BlobField()

    class Meta:
        primary_key = CompositeKey("owner", "digest")


class Deletion(_Table):
    """A deleted owner of which rows are left to be swept."""

    owner = TextField(primary_key=True)
    archived = BooleanField(default=False)
    """Whether its archive is left to be deleted, which comes first."""


class DeletedRun(_Table):
    """A deleted run of which Prometheus has series left."""

    run_id = IntegerField(primary_key=True)
    deleted_at = DoubleField()
    once = BooleanField(default=False)
    """Whether they were deleted once."""


TABLES = (
    *(
        Run,
        RunSet,
        Rank,
        Autopsy,
        RankEvidence,
        Profile,
        Worker,
        Hearing,
        Pod,
        JoinToken,
        Stream,
        Chunk,
    ),
    *(Series, SeriesName, KeptSample, Detail, PostedBody),
    *(Deletion, DeletedRun),
)

# The columns in which a user says something of a run, at any time: no part of the evidence.
WORDS = frozenset({"title", "tags", "note"})

# The tables whose rows belong to an owner, and are deleted with it.
OWNED = (Stream, Series, SeriesName, KeptSample, Detail, PostedBody)


def open_database(url: str, reserve_bytes: int = 0) -> Database:
    """Connect the tables to a database, and bring its schema up to date.

    ``reserve_bytes`` of SQLite's disk are kept for the state of runs.

    Raises:
        DatabaseURLError: the URL cannot be used.
        NewerSchemaError: a newer version of MLBench has used the database.
        DamagedDatabaseError: SQLite's file is no database, or a broken one.
        UnreachableDatabaseError: PostgreSQL gives no answer, or SQLite cannot open its file.
    """
    opened = connect(url, reserve_bytes)
    database.initialize(opened)
    try:
        bring_up_to_date(opened, TABLES)
    except DatabaseError as error:
        raise_if_damaged(opened, error)
        if not isinstance(error, OperationalError):
            raise
        why = f"the database {opened.database} cannot be opened: {explain(error)}"
        raise UnreachableDatabaseError(why) from error
    return opened


def run_owner(run_id: int) -> str:
    """Return the owner of a run's streams and samples."""
    return f"run/{run_id}"


def added_owner(run_id: int | str) -> str:
    """Return the owner of what was posted for a run after its end, which is no part of it."""
    return f"added/{run_id}"


def deleted_owner(owner: str) -> str:
    """Return the owner of a deleted owner's streams until they are swept."""
    return f"deleted/{owner}"


def find_run(owner: str) -> Run | None:
    """Return the run of an owner; None for a pod, or for a run that was deleted."""
    kind, _, run_id = owner.partition("/")
    return next(iter(Run.rows("id = ?", int(run_id))), None) if kind == "run" else None


def archive_of(owner: str) -> str | None:
    """Return the file name of the archive that has an owner's samples; None if none has."""
    kind, _, name = owner.partition("/")
    run = Run.get_or_none(Run.id == int(name)) if kind != "pod" else None
    if run is None:
        return None
    archive: str | None = run.archive if kind == "run" else (run.added or {}).get("archive")
    return archive


def pod_owner(pod: str) -> str:
    """Return the owner of the samples posted for a pod."""
    return f"pod/{pod}"
