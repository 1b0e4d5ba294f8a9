"""Runs, as the API tells of them: their order, state, goal, ranks and origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mlbench.contract.names import ACTIVE_STATES, OutcomeKind, RunState
from mlbench.contract.output import is_file_name
from mlbench.contract.records.base import Record, Time
from mlbench.contract.runspec import RunSpec
from mlbench.contract.stated import Setting

Division = Literal["closed", "open"]


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
    """Late samples of a run, which are kept apart from its result."""

    samples: int
    first_at: Time
    """When the first of them came."""
    last_at: Time
    of_lost_ranks: int = 0
    """Samples that ranks sent after they were lost. The others were posted after the run's end."""


@dataclass(frozen=True)
class NotRecorded(Record):
    """Counts of data that a run's processes reported and its record lacks."""

    text: str
    """All counts in a phrase, such as `3 malformed lines`."""
    malformed_lines: int = 0
    """Lines of metrics files that cannot be read. The series `malformed` shows their text."""
    refused_values: int = 0
    """Values of series beyond the limit of series."""
    refused_calls: int = 0
    """Calls of an MLflow or MLBench client that were refused."""
    unanswered_calls: int = 0
    """Such calls that broke off, or timed out, before they were read."""
    unread_files: int = 0
    """TensorBoard event files that could not be read to their end."""
    unwritten_values: int = 0
    """Values for which the disk had no room."""
    refused_bytes: int = 0
    """Bytes that a lost rank of an external job sent after the run's end."""


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
class Outcome(Record):
    """What a run achieved, as its evaluation says once the run has ended."""

    kind: OutcomeKind
    """`reached` or `not_reached`: the target. `nan`: a loss, or the target's metric, is not finite.
    `completed`: the run has no target."""
    text: str
    """The outcome in a sentence: when, where, or which error."""
    title: str
    """Words for a list, such as `target reached` or `NaN`."""
    since: float | None = None
    """Unix seconds: when the target was reached, or since when the run was NaN or hung."""
    step: int | None = None
    """First step that is NaN, or the steps done before the hang; None if unknown."""
    rank: int | None = None
    """The rank that crashed; None for other outcomes, or if unknown."""


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
    """The name that its user gave the run."""
    resource_name: str = ""
    """The name in Kubernetes and of files: `name` if Kubernetes allows it, else derived from it."""
    display_name: str = ""
    """Same as `name`: for clients of earlier versions."""


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
    """Late samples, which are not part of its result; None if there are none."""
    not_recorded: NotRecorded | None = None
    """Counts of data that its record lacks; None if nothing is known to be missing."""
    not_finite: NotFinite | None = None
    """Since when its loss is no finite number; None if it is one."""
    outcome: Outcome | None = None
    """What the run achieved; None until its result is computed, soon after its end."""
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
        """Check names that become file names, and set those that earlier versions lack.

        Raises:
            ValueError: a name could lead to another folder.
        """
        if not self.resource_name:
            # Up to 0.1.0, `name` was the resource name, and `display_name` the user's.
            object.__setattr__(self, "resource_name", self.name)
            object.__setattr__(self, "name", self.display_name or self.name)
        object.__setattr__(self, "display_name", self.name)
        object.__setattr__(self, "title", self.title or self.name)
        for field_name, name in (("resource_name", self.resource_name), ("archive", self.archive)):
            if name is not None and not is_file_name(name):
                raise ValueError(f"{field_name}: must be the name of a file (got {name!r:.100})")

    @property
    def words(self) -> "Words":
        """What its user says of it."""
        title = "" if self.title == self.name else self.title
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
    query: str = ""
    """How the query was read, such as `accuracy>95 and "first"`; empty without one."""


@dataclass(frozen=True)
class RunField(Record):
    """A field by which runs are searched, sorted and grouped."""

    name: str
    help: str
    unit: str = ""
    """What its numbers are in; empty where they have none."""


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

    By Student's t, which assumes that means of so many figures are about normal. None for a single
    run.
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
