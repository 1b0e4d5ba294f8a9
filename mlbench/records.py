"""Every record of the API, once: what the master answers, the document describes, clients read.

The attributes are the JSON's, in its order. ``mlbench.results`` has the records of results.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from mlbench.names import ACTIVE_STATES, RunState
from mlbench.runspec import Resources, RunSpec
from mlbench.stated import Setting


class _DateTime:
    """Has the OpenAPI document call a text a date-time."""

    @staticmethod
    def __get_pydantic_json_schema__(schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Time = Annotated[str, _DateTime]
"""A time in UTC, to the microsecond, such as ``2018-08-03T09:21:29.347960Z``."""

Division = Literal["closed", "open"]
AgentState = Literal["idle", "running", "exited"]

EventKind = Literal[
    "created",
    "ready",
    "restarted",
    "started",
    "goal",
    "autopsy",
    "fault",
    "exited",
    "lost",
    "finished",
    "failed",
    "stopped",
    "added",
]


@dataclass(frozen=True)
class Record:
    """A JSON object of the API."""

    # For the schemas of the OpenAPI document, which pydantic makes of these dataclasses.
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "json_schema_serialization_defaults_required": True,
    }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the record that a JSON object describes; unknown fields are passed over.

        ValueError if a field is missing, or of another type.
        """
        # The agent of a worker has the standard library only; it uses records, but never reads one.
        import msgspec  # noqa: PLC0415

        try:
            record = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"no {cls.__name__} that this version reads: {error}") from error
        record.__dict__["_fields"] = fields
        return record

    def to_fields(self) -> dict[str, Any]:
        """Return the record as JSON holds it: numbers that are not finite are None."""
        import msgspec  # noqa: PLC0415

        # Of a record that it has read, msgspec writes no field that has its default.
        return dict(msgspec.json.decode(msgspec.json.encode(asdict(self))))

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON object, also with fields that this version does not know."""
        said: Mapping[str, Any] = self.__dict__.get("_fields", {})
        return said


def _leave_out_null(schema: dict[str, Any]) -> None:
    """Describe a record whose optional fields are left out where they are None."""
    for name, described in schema["properties"].items():
        if name not in schema["required"]:
            choices = described.pop("anyOf", [])
            described.update(next((choice for choice in choices if choice != {"type": "null"}), {}))


@dataclass(frozen=True)
class SparseRecord(Record):
    """A record whose optional fields are left out of the JSON where they are None."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **Record.__pydantic_config__,
        "json_schema_serialization_defaults_required": False,
        "json_schema_extra": _leave_out_null,
    }

    def to_fields(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return {name: part for name, part in super().to_fields().items() if part is not None}


# --- Runs ---


@dataclass(frozen=True)
class Goal(Record):
    """The metric that a run is judged by, and the value that it has to reach."""

    metric: str
    value: float
    lower_is_better: bool = False


@dataclass(frozen=True)
class Delivery(Record):
    """Where the run's samples are: recorded = in_prometheus + kept."""

    recorded: int
    in_prometheus: int
    kept: int
    """Samples that Prometheus cannot hold; the API reads them too."""


@dataclass(frozen=True)
class Added(Record):
    """What was posted for a run after its end: it can be read, but is no part of the result."""

    samples: int
    first_at: Time
    """When the first of them came."""
    last_at: Time


@dataclass(frozen=True)
class NotFinite(Record):
    """Since when a loss is NaN or an infinity."""

    metric: str
    rank: str
    """Empty for values without a rank."""
    step: int | None
    """The first such step, where steps are recorded."""
    since: Time


@dataclass(frozen=True)
class Rank(Record):
    """A worker of the run's latest attempt, and its rank among the workers."""

    rank: int
    pod: str
    """The worker that runs it."""
    exit_code: int | None
    """None until it has ended."""
    stopped: str = ""
    """Why it was stopped, such as `stopped after rank 1 failed`; empty if it ended by itself."""
    processes: tuple[int, ...] = ()
    """The ranks of its processes: its own, unless its command has started several (torchrun)."""


@dataclass(frozen=True)
class Origin(Record):
    """Where an imported run comes from."""

    installation: str
    """The host of its master; empty where its archive does not say."""
    run_id: int
    """Its id there."""
    imported_at: Time
    set_name: str | None = None
    """The benchmark set that it was run for there, if it was."""
    place: int | None = None
    """Its place in that set."""

    def __str__(self) -> str:
        where = self.installation or "another installation"
        return f"run {self.run_id} of {where}{f', set {self.set_name}' if self.set_name else ''}"


@dataclass(frozen=True, kw_only=True)
class _RunHead(Record):
    """What comes first in the JSON of a run."""

    id: int
    name: str
    """As Kubernetes takes names; of a run whose own is no such name, made from that."""
    display_name: str = ""
    """Its own name, as it was ordered; empty in archives from before there were any."""


@dataclass(frozen=True, kw_only=True)
class Run(RunSpec, _RunHead):
    """A run: what it was ordered with, and what became of it."""

    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    state: RunState
    reason: str
    """Why it failed, or was stopped at its deadline; else what is to be known of it, such as that
    its order named no benchmark; mostly empty."""
    waiting: str = ""
    """What it waits for: before it begins, between attempts, or to be counted; else empty."""
    job_id: str = ""
    job_metadata: Mapping[str, Any] = field(default_factory=dict)
    """What MLBench's dashboard told of it: `command`, `master_name` (the pod of rank 0), `pods`."""
    benchmark: str = ""
    """The official task; empty where the run brought its own command."""
    image: str = ""
    """The run's own image; empty for an official task."""
    command: str = ""
    """What the run's own image runs."""
    launcher: str = ""
    """Who started its processes, such as `slurm` or `torchrun`; empty where MLBench did."""
    backend: str = ""
    run_all_nodes: bool = True
    world_size: int = 0
    """How many processes train, a rank each: one in each worker, unless they state more."""
    set_name: str | None = None
    """The benchmark set that it was run for; None: none."""
    place: int | None = None
    """Its place in the set, from 1 on."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what its set sweeps, as they were given; its order has them too."""
    replaced_by: int | None = None
    """A newer run at its place that has finished; None: none has."""
    attempt: int
    """0 until it starts, then 1, and one more for each restart."""
    stop_requested: bool = False
    delete_requested: bool = False
    """Whether it is deleted once it has ended."""
    settings: Mapping[str, Setting] | None = None
    """The settings of the task, as it states them; None until it does."""
    goal: Goal | None
    goal_reached_at: Time | None = None
    """When a recorded value reached the goal first; None: not yet."""
    goal_train_seconds: float | None = None
    """Training time until then; None where it was not recorded."""
    delivery: Delivery | None
    """None until its samples are counted: by its end, or soon after it was stopped or failed."""
    added: Added | None = None
    """What was posted after its end; None: nothing."""
    not_finite: NotFinite | None = None
    """Since when its loss is no finite number; None if it is one."""
    disturbed: bool = False
    """Whether its result is not its own, as other programs took its cores; False until its end."""
    waiting_share: float | None = None
    """Of the time, from 0 to 1: the rank that waited most did so for a core that others had."""
    archive: str | None = None
    """The file name of its archive; None until it is sealed, soon after its end."""
    archive_sha256: str | None = None
    """The archive's digest."""
    archive_problem: str = ""
    """Why it is not sealed, or not with its latest samples; else empty."""
    title: str = ""
    """The name for people: what its user calls it, or else its own name."""
    tags: tuple[str, ...] = ()
    """Those that its user gave it, in order."""
    note: str = ""
    """What its user wrote of it, in Markdown."""
    origin: Origin | None = None
    """Of an imported run, which is read only; None for a run of this installation."""
    ranks: tuple[Rank, ...]
    values: Mapping[str, Setting] = field(default_factory=dict)
    """Of the fields that `columns` asks for, by name; None where it has none."""

    def __post_init__(self) -> None:
        """Give a run that nobody has called anything, as in an archive, its own name."""
        object.__setattr__(self, "title", self.title or self.own_name)

    @property
    def own_name(self) -> str:
        """The name that it was ordered with."""
        return self.display_name or self.name

    @property
    def words(self) -> "Words":
        """What its user says of it."""
        title = "" if self.title == self.own_name else self.title
        return Words(title, self.tags, self.note)

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES


@dataclass(frozen=True)
class Words(Record):
    """What the user says of a run: no part of the evidence, so that it has a file of its own."""

    title: str = ""
    """Empty for the run's own name."""
    tags: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class RunCounts(Record):
    """How many runs there are."""

    runs: int
    """In all."""
    states: Mapping[RunState, int]
    """Of those that match, by state; a state that none is in is left out."""


@dataclass(frozen=True)
class RunField(Record):
    """A field by which runs are searched, sorted and grouped."""

    name: str
    help: str


@dataclass(frozen=True)
class RunCurve(Record):
    """The goal's metric over time, in at most 60 points or so."""

    run_id: int
    metric: str
    seconds: tuple[float, ...]
    """Since the run's start."""
    values: tuple[float, ...]
    """Of an active run, the mean over the ranks."""


@dataclass(frozen=True)
class GroupMean(Record):
    """The mean of a figure over the runs of a group."""

    count: int
    """How many of them have the figure."""
    mean: float | None
    """Of these; None if it is too large for a number."""
    low: float | None
    """What the runs are drawn from has a mean between this and the next, with 95 % confidence.

    By Student's t, of the logarithms where all figures are above 0 (Cox). None for a single run.
    """
    high: float | None


@dataclass(frozen=True)
class RunGroup(Record):
    """Runs that have the same values of some fields."""

    values: Mapping[str, Setting]
    """Of the fields that they are grouped by, a tag for `tag`, a day for a time; None: no value."""
    runs: int
    """How many they are."""
    means: Mapping[str, GroupMean | None]
    """Of the fields that `columns` asks for; None where none of them has a number."""


@dataclass(frozen=True)
class RunMetric(Record):
    """A metric that a run has recorded."""

    name: str
    has_ranks: bool
    """Whether all of its series are of ranks: one that was posted may have none."""


@dataclass(frozen=True)
class OriginalRun(Record):
    """A run in the list for MLBench's original command line, which prints each of its fields."""

    id: int
    name: str
    """Its own name, as it was ordered."""
    created_at: Time
    state: str
    """In lowercase."""
    num_workers: int
    job_id: str
    job_metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Verification(Record):
    """What was found when a run's archive was verified."""

    run_id: int
    archive: str | None
    """The file name; None for a run that is not sealed."""
    archive_sha256: str | None
    delivery: Delivery | None
    """How many samples the run has recorded, and where they were at its end."""
    problems: tuple[str, ...]
    """What is damaged or missing, in the archive or in Prometheus, a sentence each."""
    restored: int
    """The samples that were written to Prometheus again."""
    added: Added | None = None
    """What was posted after the run's end, and is sealed beside its archive."""


@dataclass(frozen=True)
class Imported(Record):
    """What became of an archive."""

    run: Run
    """The run that it is of."""
    added: bool
    """False if the run was here already."""


# --- Benchmark sets ---


@dataclass(frozen=True)
class PlannedFault(Record):
    """A failure of a run's schedule."""

    seconds: float
    """When, after all ranks of the first attempt were running."""
    rank: int
    """The worker that it hits, by its rank among the workers."""
    fault: str
    """Such as `kill` or `stop:5s`."""


@dataclass(frozen=True)
class Planned(Record):
    """A place as it is registered."""

    num_workers: int
    seed: int | None = None
    """Of its first run; one that is run in its stead has a seed that the set has not used."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what the set sweeps: ``{"exchange": "flat", "bandwidth": "20"}``."""
    faults: tuple[PlannedFault, ...] = ()
    """The failures that its runs have, drawn from its seed."""


@dataclass(frozen=True)
class Trial(Record):
    """A run that was ordered for a place of a set, and stays in the set's ledger."""

    place: int
    run_id: int
    seed: int | None
    state: RunState
    reason: str
    """Why it failed, or was stopped; else empty."""
    disturbed: bool
    deleted: bool
    """The run was: of what it did, this is left."""
    counts: bool
    remark: str
    """Why it does not count, or as what; else empty."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES and not self.deleted


@dataclass(frozen=True)
class SetPlace(Record):
    """A place of a set: what was to be run there, and what was."""

    number: int
    """From 1 on, in the order in which the places are to be run."""
    name: str
    """Of its runs."""
    num_workers: int
    seed: int | None
    """Of its first run; one that is run in its stead has a seed that the set has not used."""
    is_open: bool
    """Whether a run may be ordered for it."""
    trials: tuple[Trial, ...]
    """The oldest first."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what the set sweeps, for its runs."""
    faults: tuple[PlannedFault, ...] = ()
    """The failures that its runs have, drawn from its seed."""

    @property
    def active(self) -> Trial | None:
        """The run that goes on there, if one does."""
        return next((trial for trial in self.trials if trial.active), None)

    @property
    def finished(self) -> bool:
        """Whether a run has finished there."""
        return any(trial.state == "FINISHED" and not trial.deleted for trial in self.trials)


@dataclass(frozen=True)
class RunSet(Record):
    """A benchmark set: what was to be run, as registered before its first run, and its ledger."""

    name: str
    created_at: Time
    official: bool
    """Whether it follows MLPerf's rules: every run counts, and none is run in another's stead."""
    until_percent: float | None
    """Repeats may end once every mean is known to within so much; None: all places are run."""
    order: Mapping[str, Any]
    """What all of its runs are ordered with."""
    places: tuple[SetPlace, ...]
    text: str
    """What became of it so far, in words."""

    @property
    def plan_sha256(self) -> str:
        """The SHA-256 of what was registered: whoever has it can tell that it was not changed."""
        places = [
            [place.num_workers, place.seed, dict(place.swept), *map(asdict, place.faults)]
            for place in self.places
        ]
        plan = [self.name, self.official, self.until_percent, dict(self.order), places]
        text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def counted(self) -> list[int]:
        """The runs that count and are there."""
        trials = [trial for place in self.places for trial in place.trials]
        return [trial.run_id for trial in trials if trial.counts and not trial.deleted]


@dataclass(frozen=True)
class RunEvent(Record):
    """Something that happened to a run."""

    time: Time
    """An exit and a goal by the worker's clock, all else by the master's."""
    kind: EventKind
    """`ready`: the workers are there; `started`: all ranks run; `restarted`: a later attempt began,
    or torchrun began a worker's processes anew;
    `goal`: the goal was reached; `fault`: a failure was injected, or would have been;
    `exited`: a rank ended with an error; `lost`: it was given up."""
    attempt: int
    """0 before the first one."""
    rank: int | None
    """The rank that it happened to; None for the run as a whole."""
    text: str
    """What happened, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Alert(Record):
    """An alert that fires."""

    name: str
    severity: str
    """`critical`: a run is wasted, or nobody watches; `warning`: look at it today."""
    since: Time
    text: str
    """What is wrong, in a sentence or two."""
    runbook: str
    """The page that says what to do, in the documentation."""
    run_id: int | None
    """The run that it is about; None for a part of the installation."""
    rank: int | None
    pod: str | None


@dataclass(frozen=True)
class RunAlert(Record):
    """An alert that fired about a run, from when to when."""

    name: str
    severity: str
    rank: int | None
    began_at: Time
    """To within a few seconds; in a long run, a thousandth of it."""
    ended_at: Time | None
    """None while it fires."""


# --- What a run's result depends on ---


@dataclass(frozen=True)
class GitState(Record):
    """The repository that holds a run's code."""

    commit: str
    dirty: bool | None = None
    """Whether it has changes that the commit does not; None where that is unknown."""
    root: str | None = None
    """Its folder."""


@dataclass(frozen=True, kw_only=True)
class Machine(Record):
    """The machine and software of some ranks, as their agents state them; None where unknown.

    Several machines that differ in nothing but their `hostname` are one, whose `hostname` is None.
    """

    ranks: tuple[int, ...] = ()
    hostname: str | None = None
    os: str | None = None
    """The distribution and its kernel."""
    architecture: str | None = None
    cpu_model: str | None = None
    processor: Mapping[str, str] = field(default_factory=dict)
    """More of it, as far as the kernel tells: generation, clock, governor, turbo, smt, caches,
    numa_nodes, hypervisor."""
    cpus: int | None = None
    """Cores that the worker may run on."""
    cpu_limit: float | None = None
    """How many cores' worth of time it may use; None if that is not limited."""
    bandwidth_limit: float | None = None
    """How many Mbit/s it may send; None if that is not limited."""
    latency_ms: float | None = None
    """By how many ms what it sends is held back; None: by none."""
    loss_percent: float | None = None
    """The share of what it sends that is thrown away; None: none."""
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """How many of them it may use; None if that is not limited."""
    gpus: tuple[str, ...] = ()
    """The models of its GPUs, one entry each."""
    gpu_driver: str | None = None
    python: str | None = None
    """The version of the Python that the command begins with or its script names.

    For other commands, of the agent's.
    """
    mlbench: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """The distributions that this Python has installed, with their versions."""
    git: GitState | None = None
    """None where the code lies in no repository."""


@dataclass(frozen=True, kw_only=True)
class StatedMachine(Machine):
    """A machine, and its clock when the process was about to start."""

    is_forked: bool = False
    """Whether the process was forked from one that had imported PyTorch."""
    clock_offset_seconds: float | None = None
    """By how much it was ahead of the master's."""
    clock_uncertainty_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Disturbance(Record):
    """What kept a rank from its cores, as the kernel counts it over the rank's training.

    Training is what follows the first line that its process recorded; all that it did, if it
    recorded none. What is unknown is None, or missing.
    """

    seconds: float
    """How long it was measured."""
    cores: int
    """How many cores the rank may run on."""
    waiting_seconds: float
    """The part of these seconds in which it waited for a core that others had.

    At most the part of its cores' time that others had: in the rest, threads of its own run waited
    for each other.
    """
    own_waiting_seconds: float
    """The part in which it waited for a core that its own run had, or for its limit's sake."""
    others_core_seconds: float | None
    """How long others used its cores, summed over the cores; on a cluster, other ranks too."""
    top: Mapping[str, float]
    """The same by program, of those that used most; empty on a cluster."""
    stolen_seconds: float | None
    """The part in which the hypervisor had a core of the rank, the mean over its cores."""
    throttled_seconds: float | None
    """For how long the limit of its own container kept it from its cores, summed over the cores."""
    node_pressure_seconds: Mapping[str, float]
    """For how long some process waited for ``cpu``, ``memory`` and ``io``."""
    pod_pressure_seconds: Mapping[str, float]
    """The same of the pod's own processes."""
    major_faults: int
    """How often its processes waited for a page from a disk."""
    involuntary_switches: int
    """How often its threads lost their core to another thread."""
    core_hertz: float | None
    """The mean frequency of its cores."""
    gpu_limited_seconds: Mapping[str, float]
    """For how long something kept a GPU's clock down, by what it was, such as ``heat``."""
    profiled: tuple[tuple[float, float], ...] = ()
    """From when to when it was profiled, in Unix seconds by the clock of its worker."""


@dataclass(frozen=True)
class RankOnMachine(Record):
    """Where a rank ran."""

    rank: int
    pod: str
    hostname: str | None
    image: str | None
    """The image that its pod ran, with its digest; None where it ran none."""
    cpus: tuple[int, ...]
    """The cores that it was bound to; empty if it was to none."""
    clock_offset_seconds: float | None
    """By how much the worker's clock was ahead of the master's when the rank was started."""
    clock_uncertainty_seconds: float | None
    """The offset is right to within this: half the shortest round trip."""
    is_forked: bool = False
    """Whether its process was forked from one that had imported PyTorch."""


@dataclass(frozen=True, kw_only=True)
class Limits(Resources, Record):
    """The resources and limits of a run."""

    num_workers: int
    light_target: bool
    max_restarts: int
    deadline_seconds: float | None


@dataclass(frozen=True)
class Versions(Record):
    """Versions of the installation; each machine states its own."""

    mlbench: str
    """The master's."""


@dataclass(frozen=True)
class Manifest(Record):
    """Everything that a run's result depends on."""

    run_id: int
    name: str
    division: Division
    """Closed for an official task, open for a command of one's own."""
    departures: tuple[str, ...]
    """Where a run of the closed division leaves the rules of its task, a sentence each."""
    benchmark: str
    image: str
    command: str
    working_dir: str | None
    args: Mapping[str, str]
    run_all_nodes: bool
    backend: str
    seed: int | None
    settings: Mapping[str, Setting] | None
    """The settings of the task, as it states them; None until it does."""
    goal: Goal | None
    data: Mapping[str, Setting]
    """The settings that say what it was trained on: all whose names begin with `data`."""
    limits: Limits
    attempts: int
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    versions: Versions
    machines: tuple[Machine, ...]
    """Of the latest attempt; empty until its ranks have started."""
    ranks: tuple[RankOnMachine, ...]
    launcher: str = ""
    """Who started its processes; empty where MLBench did."""


# --- Series and logs ---


@dataclass(frozen=True)
class Point(SparseRecord):
    """A value at a time. ``cumulative`` and ``metadata`` are there where they were given.

    ``added`` is there, and true, where it was posted after the end of its run.

    ``min`` and ``max`` are there where the value is an average of several points: of their finite
    numbers.
    """

    date: Time
    value: str
    cumulative: bool | None = None
    metadata: Any = None
    min: str | None = None
    max: str | None = None
    added: bool | None = None

    @property
    def number(self) -> float:
        """The value as a number; ValueError if it is a text."""
        return float(self.value)


Series = dict[str, list[Point]]
"""Points by the name of their series, such as ``train_loss @ 0``; each list in order of time."""


@dataclass(frozen=True)
class RunFile(Record):
    """A file that a rank left in ``$MLBENCH_OUTPUT``."""

    rank: int
    attempt: int
    name: str
    """With the folders that it is in, such as ``plots/loss.png``."""
    size: int
    sha256: str | None
    """None for a file that is too large to be read, or that changed meanwhile."""
    path: str | None
    """Where it stays on the rank's machine; None if the master holds it."""
    left: str
    """Why the master does not hold it; empty if it does."""


@dataclass(frozen=True)
class LogPage(Record):
    """A piece of what a rank wrote."""

    rank: int
    stream: str
    attempt: int
    text: str
    start: int
    """Where the text begins, in bytes."""
    offset: int
    """Where the next piece begins, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the process has ended and this is the last piece."""


@dataclass(frozen=True)
class LogMatch(Record):
    """A line that has the text."""

    offset: int
    """Where the line begins, in bytes."""
    text: str
    """The line, cut at 500 characters."""


@dataclass(frozen=True)
class LogSearch(Record):
    """The lines that have a text."""

    rank: int
    stream: str
    attempt: int
    matches: tuple[LogMatch, ...]
    start: int
    """Where the search began, in bytes."""
    offset: int
    """Where to go on, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the whole log so far was searched."""


# --- What runs run on, and may ask for ---


@dataclass(frozen=True)
class Pod(Record):
    """A worker pod."""

    name: str
    labels: str
    """A Python dictionary's text, as MLBench wrote it."""
    phase: str
    """As Kubernetes names it, such as ``Running``."""
    ip: str
    node: str = ""
    run_id: int | None = None
    """The active run that it works for."""
    rank: int | None = None
    """Its rank in that run."""
    cpus: tuple[int, ...] = ()
    """The cores that it has for that run; empty where the pod has its own."""
    state: AgentState | None = None
    """As its agent said last; None before its first poll."""
    fork_server: bool = False
    """Whether a process that has imported PyTorch is ready to be forked for an official task."""
    seen_at: Time | None = None
    """When its agent was last heard of."""


@dataclass(frozen=True)
class Option(Record):
    """An option of an official task, for ``args`` of a run."""

    name: str
    default: Setting
    choices: tuple[Setting, ...]
    """The values to choose from; empty for any number or text."""
    help: str


@dataclass(frozen=True)
class Benchmark(Record):
    """An official task."""

    name: str
    """The value of ``benchmark`` of a run."""
    description: str
    goal: Goal | None = None
    """The default goal; None for a task without one."""
    light_goal: Goal | None = None
    """The goal with `light_target`; None if there is none."""
    has_light_target: bool = False
    """Whether a run may set ``light_target``: a goal that is reached sooner."""
    takes_seed: bool = False
    """Whether a run may set ``seed``."""
    takes_gpu: bool = False
    """Whether a run may set ``gpu_enabled``."""
    backends: tuple[str, ...] = ()
    """Possible values of a run's ``backend``; empty where its ranks do not communicate."""
    rules: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    """The values that its settings may have in the closed division, the usual one first."""
    options: tuple[Option, ...] = ()
    """What a run's ``args`` may set."""
    images: tuple[str, ...] = ()
    """MLBench's images of it, which ``image_name`` of a run may name too, with any tag."""


@dataclass(frozen=True)
class BandwidthLimit(Record):
    """How much bandwidth a run may ask for."""

    most: float | None
    """Mbit/s that a worker may send; ``null``: any number."""


@dataclass(frozen=True)
class RunLimits(Record):
    """What a run may ask for."""

    workers: int
    """The most of them."""
    cpus: float
    """The most cores of a worker."""
    whole_cpus: bool
    """Whether a worker gets whole cores only."""
    bandwidth: BandwidthLimit | None
    """``null`` where it cannot be limited."""
    gpus: int
    """GPUs of a worker of a run that asks for them; 0 where there are none."""
    latency: bool = False
    """Whether it may ask for latency and loss."""


@dataclass(frozen=True)
class Place(Record):
    """Another web page to look at, by the URL that a browser can reach."""

    url: str


@dataclass(frozen=True)
class Info(Record):
    """An installation."""

    version: str
    pool: Literal["local", "kubernetes"]
    """Where the workers are."""
    database: Literal["sqlite", "postgresql"]
    """Where runs are stored."""
    workers: int
    """How many idle ones are kept."""
    limits: RunLimits
    grafana: Place | None
    prometheus: Place | None
    """That of a local stack; a cluster's is not for browsers."""

    @property
    def grafana_url(self) -> str | None:
        """Grafana, as a browser reaches it; None where there is none."""
        return self.grafana.url if self.grafana else None

    @property
    def prometheus_url(self) -> str | None:
        """The Prometheus of a local stack; None elsewhere."""
        return self.prometheus.url if self.prometheus else None


# --- Answers to what is sent, and errors ---


@dataclass(frozen=True, kw_only=True)
class Echo(SparseRecord):
    """A sample as it was given, with one of ``run_id`` and ``pod_name``."""

    run_id: int | None = None
    pod_name: str | None = None
    name: str
    date: Time
    value: str
    cumulative: bool | None = None
    metadata: Any = None


@dataclass(frozen=True)
class Count(Record):
    """How many samples a list had."""

    count: int


@dataclass(frozen=True)
class Joined(Record):
    """The rank of a run that a process has, which MLBench did not start."""

    run_id: int
    attempt: int
    pod: str
    """The pod that stands for the rank: its recorder polls in its name."""
    token: str
    """That pod's."""


@dataclass(frozen=True)
class Held(Record):
    """How much of a stream the master has."""

    offset: int
    """In bytes: where the next chunk begins."""
    next_ship_seconds: float
    """After how long to ship again, while the rank's process runs."""


@dataclass(frozen=True)
class Health(Record):
    """All is well."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Error(Record):
    """What went wrong."""

    status: int
    """The answer's status code again."""
    message: str
    """Which field or part of the request is wrong, and what would be right."""
