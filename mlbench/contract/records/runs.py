"""Runs: settings, state, target, ranks, outcome and origin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mlbench.contract.names import ACTIVE_STATES, OutcomeKind, RunState
from mlbench.contract.output import is_file_name
from mlbench.contract.records.record import Record, Time
from mlbench.contract.reported_settings import Setting
from mlbench.contract.runspec import RunSpec

Division = Literal["closed", "open"]


@dataclass(frozen=True)
class Target(Record):
    """The target of a run: a metric, and the value that it must reach."""

    metric: str
    value: float
    lower_is_better: bool = False
    """Whether the metric must fall to the value instead of rising to it."""


@dataclass(frozen=True)
class Delivery(Record):
    """Counts of a run's samples. Prometheus lacks some if recorded is more than the others' sum."""

    recorded: int
    """Number of samples in the record: all that the workers wrote."""
    in_prometheus: int
    """Number of samples that are stored in Prometheus."""
    record_only: int
    """Number of samples that Prometheus cannot hold or has refused, such as texts."""


@dataclass(frozen=True)
class Added(Record):
    """Late samples of a run, which are not part of its result."""

    samples: int
    """Number of late samples."""
    first_at: Time
    """Arrival of the first late sample."""
    last_at: Time
    """Arrival of the last late sample."""
    of_lost_ranks: int = 0
    """Number of samples that ranks sent after they were lost.

    All other late samples were posted after the run's end.
    """


@dataclass(frozen=True)
class NotRecorded(Record):
    """Counts of data that a run's record lacks."""

    text: str
    """All counts in a phrase, such as ``3 malformed lines``."""
    malformed_lines: int = 0
    """Number of unreadable lines in metrics files. The series ``malformed`` contains their text."""
    refused_values: int = 0
    """Number of values that were refused because their series exceeded the limit of series."""
    refused_calls: int = 0
    """Number of calls of an MLflow or MLBench client that were refused."""
    unanswered_calls: int = 0
    """Number of calls of an MLflow or MLBench client that broke off or timed out unread."""
    unread_files: int = 0
    """Number of TensorBoard event files that could not be read to the end."""
    unwritten_values: int = 0
    """Number of values that were lost because the disk was full."""
    refused_bytes: int = 0
    """Number of bytes that a lost rank of an external job sent after the run's end."""
    pods_without_usage: int = 0
    """Number of pods whose resource usage Prometheus did not return when the run was sealed."""
    untimed_gpu_ranks: int = 0
    """Number of ranks whose communication is not timed, because GPUs communicate."""
    untimed_jax_ranks: int = 0
    """Number of ranks whose communication is not timed, because programs of JAX contain it."""
    untimed_python_ranks: int = 0
    """Number of ranks whose communication is not timed, because that needs Python 3.11."""
    untimed_other_ranks: int = 0
    """Number of ranks whose communication is not timed, because PyTorch waits for it internally."""


@dataclass(frozen=True)
class NotFinite(Record):
    """The start of a period in which a loss is NaN or infinite."""

    metric: str
    """Name of the loss."""
    rank: str
    """Rank that recorded the loss; empty for a loss without a rank."""
    step: int | None
    """First step at which the loss is NaN or infinite; None if steps are not recorded."""
    since: Time


@dataclass(frozen=True)
class Outcome(Record):
    """The outcome of a run that has ended."""

    kind: OutcomeKind
    """Kind of the outcome:

    - ``reached``, ``not_reached``: whether the run reached its target
    - ``nan``: a loss or the target's metric is NaN or infinite
    - ``hung``, ``crashed``, ``stopped``: why the run ended early
    - ``completed``: a run without a target ended normally
    """
    text: str
    """Description of the outcome in a sentence, with the time, the place or the error."""
    title: str
    """Short form for a list, such as ``target reached`` or ``NaN``."""
    since: float | None = None
    """Unix time of the outcome, in seconds; None if unknown, or for other outcomes.

    It is the time at which the target was reached, the loss became NaN, or the run began to hang.
    """
    step: int | None = None
    """First step with a NaN, or number of steps before the hang; None if unknown."""
    rank: int | None = None
    """Rank that crashed, or at which the run hangs; None for other outcomes, or if unknown."""


@dataclass(frozen=True)
class Rank(Record):
    """A worker of the run's latest attempt, with its rank among the workers."""

    rank: int
    """Number of the worker in the run, from 0."""
    pod: str
    """Name of the worker pod."""
    exit_code: int | None
    """Exit code of the worker's command; None while it runs."""
    stopped: str = ""
    """Reason for stopping the worker, such as ``stopped after rank 1 failed``.

    Empty if it was not stopped.
    """
    processes: tuple[int, ...] = ()
    """Ranks of the worker's training processes; several if the command is torchrun, for example."""


@dataclass(frozen=True)
class Origin(Record):
    """The origin of an imported run."""

    installation: str
    """Host name of the original master; empty if the archive does not contain it."""
    run_id: int
    """Id of the run in the original installation."""
    imported_at: Time
    """Time of the import."""
    set_name: str | None = None
    """Benchmark set of the run in the original installation; None if it was in no set."""
    slot: int | None = None
    """Slot of the run in that set, from 1; None if it was in no set."""

    def __str__(self) -> str:
        where = self.installation or "another installation"
        return f"run {self.run_id} of {where}{f', set {self.set_name}' if self.set_name else ''}"


@dataclass(frozen=True, kw_only=True)
class _RunHead(Record):
    """The first fields in the JSON of a run."""

    id: int
    name: str
    """Name that the user gave the run."""
    resource_name: str = ""
    """Name for Kubernetes and files: ``name`` if Kubernetes allows it, else derived from it."""
    display_name: str = ""
    """Copy of ``name``, for clients of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Run(RunSpec, _RunHead):
    """A run: its settings, its state and its outcome."""

    created_at: Time
    started_at: Time | None
    """Start of the run; None before it starts."""
    finished_at: Time | None
    """End of the run; None before it ends."""
    state: RunState
    reason: str
    """Reason for the failure or for the stop at the deadline, or another remark; usually empty."""
    waiting: str = ""
    """Why the run waits before it starts, between attempts, or at its end; otherwise empty."""
    user: str = ""
    """User who submitted or recorded the run; empty if unknown."""
    stopped_by: str = ""
    """User who requested the stop or the deletion; empty if unknown, or if nobody did."""
    job_id: str = ""
    """Identifier of the run for the original MLBench's command line."""
    job_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Job fields of the original MLBench: ``command``, ``pods``, and rank 0's ``master_name``."""
    benchmark: str = ""
    """Name of the benchmark; empty for a run of your own code."""
    image: str = ""
    """Container image of your own code; empty for a benchmark."""
    command: str = ""
    """Command of your own code; empty for a benchmark."""
    launcher: str = ""
    """Launcher of an external job, such as ``slurm`` or ``torchrun``.

    Empty if MLBench started the processes.
    """
    backend: str = ""
    """Communication backend, such as ``gloo``; empty if none was set."""
    run_all_nodes: bool = True
    """Whether every rank runs the command; otherwise rank 0 alone."""
    world_size: int = 0
    """Number of training processes. One per worker, unless the processes report more."""
    set_name: str | None = None
    """Benchmark set of the run; None if it is in no set."""
    slot: int | None = None
    """Slot of the run in its benchmark set, from 1; None if it is in no set."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """Values of the swept options, by option, as they were written; empty without a sweep."""
    replaced_by: int | None = None
    """Id of a newer run that finished in the same slot of the benchmark set; None without one."""
    attempt: int
    """Number of the latest attempt: 0 before the start, then 1, and one more per restart."""
    stop_requested: bool = False
    """Whether a user has requested to stop the run."""
    delete_requested: bool = False
    """Whether the run will be deleted as soon as it has ended."""
    settings: Mapping[str, Setting] | None = None
    """Settings that the training process reported; None until it has reported them."""
    target: Target | None
    """Target of the run; None without a target, or until the training process has reported it."""
    target_reached_at: Time | None = None
    """Time of the first recorded value that reached the target; None until then."""
    target_train_seconds: float | None = None
    """Time to target (training), in seconds; None if not reached, or not recorded."""
    delivery: Delivery | None
    """Counts of the run's samples; None until they are counted, around the run's end."""
    added: Added | None = None
    """Late samples, which are not part of the result; None without late samples."""
    not_recorded: NotRecorded | None = None
    """Counts of data that the run's record lacks; None if nothing is known to be missing."""
    not_finite: NotFinite | None = None
    """Start of the period in which the run's loss is NaN or infinite; None if it is finite."""
    outcome: Outcome | None = None
    """Outcome of the run; None until its result is computed, soon after its end."""
    disturbed: bool = False
    """Whether a rank was disturbed, which may distort the result; False before the run's end."""
    contention_share: float | None = None
    """CPU contention of the rank that had most, as a share of its time, from 0 to 1.

    None if it was not measured, or before the run's end.
    """
    archive: str | None = None
    """File name of the run's archive; None until it is written, soon after the run's end."""
    archive_sha256: str | None = None
    """SHA-256 of the archive, in hexadecimal; None without an archive."""
    archive_problem: str = ""
    """Reason why the archive is missing, or lacks the latest samples; otherwise empty."""
    title: str = ""
    """Title that the user gave the run; ``name`` by default."""
    tags: tuple[str, ...] = ()
    """Tags that the user gave the run, in their order."""
    note: str = ""
    """Note of the user, in Markdown."""
    note_html: str = ""
    """The note as HTML that is safe on a page: HTML in the note is text."""
    origin: Origin | None = None
    """Origin of an imported run, which is read-only; None for a run of this installation."""
    ranks: tuple[Rank, ...]
    """Workers of the latest attempt; empty before the first attempt."""
    values: Mapping[str, Setting] = field(default_factory=dict)
    """Values of the fields that the query parameter ``columns`` requests, by name.

    None for a field without a value.
    """

    def __post_init__(self) -> None:
        """Check names that become file names, and fill in names that earlier versions lack.

        Raises:
            ValueError: a name could lead to another folder.
        """
        if not self.resource_name:
            # Up to 0.1.0, `name` was the resource name, and `display_name` the user's.
            object.__setattr__(self, "resource_name", self.name)
            object.__setattr__(self, "name", self.display_name or self.name)
        object.__setattr__(self, "display_name", self.name)
        object.__setattr__(self, "title", self.title or self.name)
        for field_name in ("resource_name", "archive"):
            name = getattr(self, field_name)
            if name is not None and not is_file_name(name):
                raise ValueError(f"{field_name}: must be the name of a file (got {name!r:.100})")

    @property
    def annotations(self) -> "Annotations":
        """Title, tags and note of the user."""
        title = "" if self.title == self.name else self.title
        return Annotations(title, self.tags, self.note)

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES


@dataclass(frozen=True)
class Annotations(Record):
    """The user's annotations of a run, which are stored in a separate file."""

    title: str = ""
    """Title of the run; empty if its name is its title."""
    tags: tuple[str, ...] = ()
    note: str = ""
    """Note in Markdown."""


@dataclass(frozen=True)
class RunCounts(Record):
    """The number of runs, and of the runs that match a query."""

    runs: int
    """Number of all runs."""
    states: Mapping[RunState, int]
    """Number of matching runs by state, without states that have no run."""
    query: str = ""
    """Interpretation of the query, such as ``accuracy>95 and "first"``; empty without a query."""


@dataclass(frozen=True)
class RunField(Record):
    """A field by which runs can be searched, sorted and grouped."""

    name: str
    help: str
    """Description of the field."""
    unit: str = ""
    """Unit of the field's numbers; empty if they have no unit."""


@dataclass(frozen=True)
class RunCurve(Record):
    """The metric of a run's target over time, in about 60 points at most."""

    run_id: int
    metric: str
    """Name of the metric."""
    seconds: tuple[float, ...]
    """Time of each point, in seconds since the run's start."""
    values: tuple[float, ...]
    """Value at each point. For an active run, the mean over the ranks."""
    training_seconds: tuple[float | None, ...] = ()
    """Training time at each point, in seconds; None if unknown. Empty if it was not recorded."""


@dataclass(frozen=True)
class GroupMean(Record):
    """The mean of a field over the runs of a group."""

    count: int
    """Number of runs that have a value."""
    mean: float | None
    """Arithmetic mean of the values; None if it is too large for a number."""
    low: float | None
    """Lower end of the 95 % confidence interval of the mean; None for a single run.

    The interval is Student's t, which assumes that the mean is approximately normally distributed.
    For shares and percentages, it is on the logit scale, and therefore within 0 to 100 %.
    """
    high: float | None
    """Upper end of the 95 % confidence interval of the mean; None for a single run."""


@dataclass(frozen=True)
class RunGroup(Record):
    """A group of runs with equal values of some fields."""

    values: Mapping[str, Setting]
    """Value of each field that the runs are grouped by; None if the runs have no value.

    The value of ``tag`` is a single tag, and the value of a time field is a day.
    """
    runs: int
    """Number of runs in the group."""
    means: Mapping[str, GroupMean | None]
    """Mean of each field that the query parameter ``columns`` requests.

    None if no run of the group has a number.
    """
    code_versions: int = 0
    """Number of different versions of the code that the runs report; 0 if none reports it.

    A version is the pair of the fields ``code`` and ``commit``. Group by them to separate versions.
    """


@dataclass(frozen=True)
class RunMetric(Record):
    """A metric that a run has recorded."""

    name: str
    has_ranks: bool
    """Whether all series of the metric belong to a rank. A posted series may have no rank."""


@dataclass(frozen=True)
class OriginalRun(Record):
    """A run in the list for the original MLBench's command line, which prints every field."""

    id: int
    name: str
    """Name of the run as it was submitted."""
    created_at: Time
    state: str
    """State of the run, in lower case."""
    num_workers: int
    job_id: str
    job_metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Verification(Record):
    """The result of verifying a run's archive."""

    run_id: int
    archive: str | None
    """File name of the archive; None for a run without an archive."""
    archive_sha256: str | None
    """SHA-256 of the archive, in hexadecimal; None for a run without an archive."""
    delivery: Delivery | None
    """Counts of the run's samples at its end; None if they were not counted."""
    problems: tuple[str, ...]
    """Damaged or missing data, in the archive or in Prometheus, a sentence each."""
    added: Added | None = None
    """Late samples, which have a separate archive; None without late samples."""


@dataclass(frozen=True)
class Imported(Record):
    """The result of importing an archive."""

    run: Run
    """The run that the archive contains."""
    added: bool
    """Whether the run was imported; False if the installation already had it."""
