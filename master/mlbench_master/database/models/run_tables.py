"""Tables of runs, benchmark sets, ranks, diagnoses and profiles."""

from peewee import (
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    CompositeKey,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from mlbench.contract.masking import mask_command
from mlbench.contract.pod_token import PodIdentity
from mlbench.evaluation.inputs import RankRow, RunRow
from mlbench_master.database.models.table import JSONField, LastingIdField, Table
from mlbench_master.pools.pool import is_same_pod

# Columns that users can change at any time. They are not part of the evidence.
ANNOTATION_COLUMNS = frozenset({"title", "tags", "note"})


class Run(Table):
    """One run of a benchmark. Times are Unix seconds."""

    # Never reused, because the series of a deleted run remain.
    id = LastingIdField()
    job_id = CharField()
    # Not "user", which is a reserved word of PostgreSQL.
    user = CharField(column_name="user_name", default="", index=True)
    """User who submitted or recorded it; empty if unknown."""
    name = CharField()
    """Name in the syntax of Kubernetes."""
    display_name = CharField(default="")
    """Name as requested; empty for runs of older versions, which had only ``name``."""
    benchmark = CharField()
    """Name of the official benchmark; empty for a ``command``."""
    by_default = BooleanField(default=False)
    """Whether it runs the default benchmark because its request named none."""
    adjustments = TextField(default="")
    """How the request of the original client was adapted to the pool; empty if it was not."""
    args = JSONField()
    image = TextField(default="")
    command = TextField(default="")
    """May contain ``{hosts}``, ``{rank}``, ``{run_id}``, ``{backend}`` and ``{seed}``."""
    working_dir = TextField(null=True)
    """Working folder of ``command``; null for the folder of the agent."""
    backend = CharField(default="gloo")
    run_all_nodes = BooleanField(default=True)
    """Whether all ranks run the command, or only rank 0."""
    num_workers = IntegerField()
    num_cpus = DoubleField(null=True)
    max_bandwidth = DoubleField(null=True)
    """Bandwidth limit of a worker in Mbit/s."""
    latency_ms = DoubleField(null=True)
    loss_percent = DoubleField(null=True)
    gpu_enabled = BooleanField(default=False)
    light_target = BooleanField(default=False)
    seed = BigIntegerField(null=True)
    max_restarts = IntegerField(default=0)
    deadline_seconds = DoubleField(null=True)
    """Seconds after the start by which training should end."""
    faults = TextField(null=True)
    """Requested fault schedule, in the syntax of ``mlbench/contract/faults.py``."""
    injected = JSONField(default=list)
    """Fields of a ``records.InjectedFault`` for each fault, scheduled or injected by hand."""
    set_name = CharField(null=True, index=True)
    slot = IntegerField(null=True)
    """Number in its benchmark set, from 1."""
    swept = JSONField(default=dict)
    """Value of each swept option, which its request contains too."""
    launcher = CharField(default="")
    """Launcher of an external run, such as slurm; empty if MLBench starts the processes."""
    job_key = TextField(null=True, index=True)
    """``HOLDER/KEY`` by which the processes of an external run find it; null for other runs."""

    state = CharField(index=True)
    attempt = IntegerField(default=0)
    stop_requested = BooleanField(default=False)
    stopped_by = CharField(default="")
    """User who requested its stop or deletion; empty if unknown, or if nobody did."""
    delete_requested = BooleanField(default=False)
    """Whether it is deleted after its end. ``stop_requested`` is also set then."""
    reason = TextField(default="")
    waiting = TextField(null=True)
    """Reason for waiting before its start, or between attempts."""
    created_at = DoubleField()
    room_at = DoubleField(null=True)
    """When it stopped waiting for other runs, if it then had to wait for workers."""
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True, index=True)
    """When its last rank exited, or when the master ended it if an exit is unknown."""
    shipped_at = DoubleField(null=True)
    """When the last data of an external run arrived, if that was well after its end."""
    steady_clock = JSONField(null=True)
    """``{"boot", "seconds"}``: steady clock of the master's machine at its start."""
    clock_set_seconds = DoubleField(default=0.0)
    """Seconds by which the master's clock was set during the run; its times are corrected."""

    target = JSONField(null=True)
    """``{"metric", "value", "lower_is_better"}``"""
    target_reached_at = DoubleField(null=True)
    """When a recorded value first reached the target."""
    target_train_seconds = DoubleField(null=True)
    """Training time until then, without evaluation."""
    not_finite = JSONField(null=True)
    """``{"metric", "rank", "step", "since"}``: first loss that is not a finite number."""
    settings = JSONField(null=True)
    """Settings that the training code reported, by name."""
    stated_world_size = IntegerField(null=True)
    """Number of processes as they reported it; null for one per worker."""
    resends = IntegerField(default=0)
    """Number of times that its samples were sent again after Prometheus had lost some."""
    refused = JSONField(null=True)
    """``{"first", "samples", "most"}``: series beyond the limit."""
    not_recorded = JSONField(null=True)
    """Counts by the fields of ``records.NotRecorded``; ``refused_bytes`` by stream. Null: none."""
    delivery = JSONField(null=True)
    """``{"recorded", "in_prometheus", "record_only"}``: number of samples, counted at its end."""
    added = JSONField(null=True)
    """``{"samples", "of_lost_ranks", "first_at", "last_at", "archive", "sha256", "sealed"}``:
    samples that arrived too late, when they arrived, their archive, and its number of samples."""
    figures = JSONField(null=True)
    """Figures of its result, computed at its end (``mlbench/evaluation/summary_metrics.py``)."""
    blocks_deleted_at = DoubleField(null=True, index=True)
    """When its blocks were deleted, so that its archive is its record; an hour after its end."""
    energy_joules = DoubleField(null=True)
    """Energy that its GPUs used, measured when it was sealed; null if unknown."""
    archive = TextField(null=True)
    """File name of its archive."""
    archive_sha256 = TextField(null=True)
    archive_bytes = BigIntegerField(null=True)
    """Size of its archives, that of late samples included; null until they are measured."""
    archive_problem = TextField(default="")
    """Why an ended run has no archive, or only an old one; empty if there is no problem."""
    sealed_at = DoubleField(null=True, index=True)
    """When its archive was written, or found to be impossible; null while it is due."""

    title = TextField(default="")
    """Title from its user; empty for its own name. Title, tags and note can change at any time,
    and are not part of the evidence."""
    tags = JSONField(default=list)
    """Sorted tags, without duplicates."""
    note = TextField(default="")
    """Note from its user, in Markdown."""

    origin = JSONField(null=True)
    """``{"installation", "run_id", "imported_at"}`` of an imported run; null for other runs."""

    @property
    def row(self) -> RunRow:
        """Input of its evaluation."""
        return RunRow.from_fields(self.__data__)

    @property
    def shown_command(self) -> str:
        """Command with masked secrets, for everything except the workers that run it."""
        return mask_command(self.command)

    @property
    def world_size(self) -> int:
        """Number of training processes, each with a rank."""
        return self.stated_world_size or self.num_workers

    @property
    def pods(self) -> list[str]:
        """Names of the pods of its ranks, sorted."""
        ranks = Rank.select(Rank.worker).where(Rank.run == self.id).distinct()
        return sorted(rank.worker for rank in ranks)

    @property
    def own_name(self) -> str:
        """Name that was requested."""
        return self.display_name or self.name


class RunSet(Table):
    """A benchmark set: a plan that is registered before its first run."""

    name = CharField(primary_key=True)
    created_at = DoubleField()
    official = BooleanField()
    until_percent = DoubleField(null=True)
    order = JSONField()
    """Fields that the requests of all its runs have in common."""
    slots = JSONField()
    """``[{"num_workers", "seed"}, …]``: its runs in order, with ``swept`` in a sweep."""
    deleted = JSONField(default=list)
    """Entries of deleted runs for the ledger: the fields of a ``ledger.Entry``."""
    user = CharField(column_name="user_name", default="")
    """User who registered it; empty if unknown."""
    state = CharField(default="running")
    """``running`` while the controller submits its runs, then ``finished`` or ``stopped``."""
    reason = TextField(default="")
    """Why it waits, was stopped, or finished early; empty otherwise."""
    resumed_after = IntegerField(default=0)
    """Id of its newest run when it was last resumed. Until then, 0."""


class Notification(Table):
    """An event of a run that the webhook is told."""

    run = ForeignKeyField(Run, on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    event = CharField()
    """``ended`` or ``hung``, at most once per attempt."""
    at = DoubleField()
    sent_at = DoubleField(null=True, index=True)
    """When the webhook accepted its message; null while the message is due."""

    class Meta:
        indexes = ((("run", "attempt", "event"), True),)


class Rank(Table):
    """A worker's part of an attempt: one rank, unless its command starts several processes."""

    run = ForeignKeyField(Run, backref="ranks", on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    worker = CharField()
    pod_uid = CharField(null=True)
    """Uid of its pod, because a later pod can have the same name; null in pools without uids."""
    image = TextField(null=True)
    """Image of the pod with its digest; null in pools without images."""
    assignment = JSONField()
    """Fields of an ``mlbench.contract.assignment.Assignment``; empty for an external rank."""
    assigned_at = DoubleField()
    reported = BooleanField(default=False)
    """Whether the agent has reported it."""
    reported_at = DoubleField(null=True)
    """Time of its first report, or of the process's exit if that was earlier. For a process of an
    external run, which starts before it reports: time of its start."""
    stop = BooleanField(default=False)
    exit_code = IntegerField(null=True)
    exited_at = DoubleField(null=True)
    """When it exited. For a lost rank: when it was last heard from."""
    lost = TextField(default="")
    """Reason for giving it up; empty if it was not."""
    clock_ahead = DoubleField(default=0.0)
    """Seconds by which the worker's clock is ahead of the run's time."""
    dated_before = DoubleField(default=0.0)
    """Largest number of seconds by which one of its timestamps precedes its start."""
    dated_ahead = DoubleField(default=0.0)
    """Largest number of seconds by which one of its timestamps was in the future."""
    failure = TextField(default="")
    """Failure that its agent reports whatever the exit code; empty if there is none."""
    machine = JSONField(null=True)
    """Hardware and software of its machine, as its agent reported them."""
    interference = JSONField(null=True)
    """CPU contention, as its agent reported it."""
    processes = JSONField(null=True)
    """``{"ranks": [2, 3], "restarts": {"1": AT}}`` of a worker with several processes."""

    @property
    def row(self) -> RankRow:
        """Input of its evaluation."""
        return RankRow.from_fields(self.__data__)

    @property
    def ranks(self) -> list[int]:
        """Ranks of its processes: one, unless its worker has several processes."""
        return self.processes["ranks"] if self.processes else [self.rank]

    @classmethod
    def is_of_pod(cls, pod: PodIdentity, run_id: int, attempt: int, rank: int) -> bool:
        """Return whether a rank was assigned to this pod, not to another pod with its name."""
        condition = "run_id = ? AND attempt = ? AND rank = ? AND worker = ?"
        ranks = cls.rows(condition, run_id, attempt, rank, pod.name)
        return bool(ranks) and is_same_pod(ranks[0].pod_uid, pod.uid)

    LARGE = (assignment, machine, interference)

    class Meta:
        indexes = ((("run", "attempt", "rank"), True), (("run", "worker"), False))


class Diagnosis(Table):
    """A hang diagnosis of a run."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    reason = CharField()
    asked_at = DoubleField()
    native_rank = IntegerField(null=True)
    """Rank whose native (C) stack is requested; null for Python stacks of all ranks."""

    class Meta:
        table_name = "autopsy"


class RankEvidence(Table):
    """Response of a rank to a hang diagnosis."""

    diagnosis = ForeignKeyField(Diagnosis, column_name="autopsy_id", on_delete="CASCADE")
    rank = IntegerField()
    evidence = JSONField()
    """Fields of an ``mlbench.contract.diagnosis.Evidence``."""

    class Meta:
        primary_key = CompositeKey("diagnosis", "rank")


class Profile(Table):
    """A requested profile of a rank over some seconds."""

    id = LastingIdField()
    run = ForeignKeyField(Run, on_delete="CASCADE")
    run_id: int
    attempt = IntegerField()
    rank = IntegerField()
    seconds = IntegerField()
    asked_at = DoubleField()
    recorded = JSONField(null=True)
    """Fields of ``mlbench.contract.profiles.ProfileResult``; null until its agent has sent it."""
    size = IntegerField(default=0)
    sha256 = CharField(default="")
    content = BlobField(null=True)
    """Compressed file; null if there is none. It is large, so lists of profiles leave it out."""

    @property
    def file(self) -> str | None:
        """Name of the profile in the run's file list, or None if the profile failed."""
        if not self.recorded or self.recorded["problem"]:
            return None
        kind = "trace" if self.recorded["tool"] == "pytorch" else "speedscope"
        return f"profiles/{self.get_id()}.{kind}.json.gz"

    @classmethod
    def of_run(cls, run: Run, **columns: int) -> "list[Profile]":
        """Return the profiles of a run, or only those with this attempt or rank, without files."""
        profiles = cls.select_without(cls.content).where(cls.run == run)
        return list(profiles.filter(**columns).order_by(cls.id))
