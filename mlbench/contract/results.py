"""Records of results, which the master computes from a run's samples.

A figure that was not recorded, or that is not finite, is None in the JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.names import Bucket
from mlbench.contract.records import Division, Interference, Outcome, Record, Target

DEFAULT_AFTER_SECONDS = 7200.0
"""Time limit for "accuracy after time" of a run without a deadline: two hours, as in MLBench."""


@dataclass(frozen=True)
class TimeToTarget(Record):
    """The time until a run first reached its target."""

    training_seconds: float | None
    """Time to target (training), in seconds without evaluation; None if it was not recorded.

    The original MLBench measures this time.
    """
    wall_seconds: float
    """Time to target (wall clock), in seconds since the start of the run.

    MLPerf measures this time.
    """
    epochs: int | None = None
    """Number of epochs started until the target; None if epochs were not recorded."""


@dataclass(frozen=True)
class AccuracyAfterTime(Record):
    """The value of the target's metric in the last evaluation within a time limit."""

    limit_seconds: float
    """Time limit in seconds: the run's deadline, or two hours."""
    value: float | None
    """Value of the metric; None without an evaluation within the limit."""
    at_seconds: float | None
    """Time of that evaluation, in seconds by ``clock``; None without one."""
    clock: Literal["training", "wall"]
    """Clock of the limit: training time, or wall-clock time if training time was not recorded."""


@dataclass(frozen=True)
class Cost(Record):
    """The worker time that a run used, and its price."""

    worker_seconds: float
    """Seconds from the run's turn in the queue to its end, summed over its workers.

    It equals the sum of the time breakdown, ``goodput.seconds``.
    """
    worker_seconds_to_target: float | None
    """Seconds from the run's turn in the queue to the target, summed over its workers.

    None if the target was not reached.
    """
    price: float | None
    """Price of a worker-second, in a currency of the user's choice; None if none was given."""
    total: float | None
    """Price of all worker-seconds; None without a price."""
    to_target: float | None
    """Price of the worker-seconds to the target; None without a price, or if not reached."""


@dataclass(frozen=True)
class RankInterference(Record):
    """The CPU contention of a rank in one attempt."""

    rank: int
    attempt: int
    disturbed: bool
    """Whether the rank was disturbed.

    CPU contention or steal time took more than 5 % of its time, or it was profiled or stopped.
    """
    contention_share: float
    """CPU contention: share of the time that the rank waited for other programs, from 0 to 1."""
    stolen_share: float | None
    """Steal time: share of the cores' time that the hypervisor took, from 0 to 1.

    None if unknown.
    """
    text: str
    """Summary in words, with the programs that used the rank's cores."""
    measured: Interference
    """The measured CPU contention."""


@dataclass(frozen=True)
class Curve(Record):
    """The target's metric over time, downsampled. All lists have the same length."""

    wall_seconds: tuple[float, ...]
    """Time of each point, in seconds since the start of the run."""
    training_seconds: tuple[float | None, ...]
    """Training time at each point, in seconds; None if unknown."""
    values: tuple[float | None, ...]
    """Value of the metric at each point; None if it is not finite."""


@dataclass(frozen=True)
class RankResult(Record):
    """The result of one rank, up to the last totals that it recorded."""

    rank: int
    steps: int | None
    """Number of steps; None if the rank did not record steps."""
    samples: float | None
    """Number of training samples; None if the rank did not record samples."""
    training_seconds: float | None
    """Training time in seconds, without evaluation; None if it was not recorded."""
    step_seconds: float | None
    """Mean time per step, in seconds without evaluation; None if unknown.

    Steps that ended before the training clock began are left out.
    """
    compute_seconds: float | None
    """Mean time per step without communication, in seconds; None if it was not measured."""
    communication_share: float | None
    """Share of the training time spent communicating, from 0 to 1; None if it was not measured."""
    phases: Mapping[str, float]
    """Seconds in each phase; ``other`` is training time outside all phases."""
    contention_share: float | None
    """CPU contention in the latest attempt, as a share of its time, from 0 to 1.

    None if it was not measured.
    """
    network_sent_bytes: float | None = None
    """Bytes that the rank's network namespace or pod sent in the latest attempt, with headers.

    None if they were not measured.
    """
    network_received_bytes: float | None = None
    """Bytes that the rank's network namespace or pod received in the latest attempt, with headers.

    None if they were not measured.
    """


@dataclass(frozen=True)
class Straggler(Record):
    """The straggler delay of a rank."""

    rank: int
    seconds: float
    """Straggler delay in seconds: extra time of the rank's own work over a typical rank's.

    Summed over the steps in which the rank was slower.
    """
    parts: Mapping[Bucket, float]
    """Straggler delay in seconds, by the activity that took the extra time."""
    speedup_without: float
    """Estimated speedup of the run if this rank alone had been as fast as a typical rank."""


@dataclass(frozen=True)
class Stragglers(Record):
    """The cost of stragglers: ranks that the others wait for in exchanges."""

    speedup_without: float
    """Estimated speedup of the run if no rank had been late."""
    ranks: tuple[Straggler, ...]
    """Straggler delay of every rank, largest first."""
    text: str
    """Summary in a sentence; empty if no straggler delay is significant and costs 5 % or more."""
    named: int | None = None
    """Rank of the straggler; None if no rank's delay is significant and costs 5 % or more."""


@dataclass(frozen=True)
class RankGoodput(Record):
    """The time breakdown of a worker in one attempt, until the next attempt or the run's end."""

    rank: int
    attempt: int
    seconds: Mapping[Bucket, float]
    """Seconds in each bucket. They add up to the whole time, to the microsecond.

    The first attempt starts after the queue.
    """
    restarts: int = 0
    """Number of times that torchrun restarted the worker's processes in this attempt."""
    again_seconds: float = 0.0
    """Seconds until training after torchrun's restarts; a part of ``seconds``."""


@dataclass(frozen=True)
class Goodput(Record):
    """The time breakdown of all workers, from the run's turn in the queue to its end, or to now."""

    share: float | None
    """Goodput: share of worker time that advanced the final model, from 0 to 1.

    This time is the buckets compute and communication. None if no training time was recorded.
    """
    seconds: Mapping[Bucket, float]
    """Seconds in each bucket over all workers and attempts, without empty buckets."""
    ranks: tuple[RankGoodput, ...]
    """Time breakdown of each worker and attempt, ordered by rank."""
    whole_step_share: float | None = None
    """Goodput as Google's ml-goodput-measurement defines it, from 0 to 1; None if unknown.

    The share of worker time within steps of the final model, including straggler wait and CPU
    contention.
    """
    queued_seconds: float = 0.0
    """Seconds in the queue, before the run held any workers; they are in no bucket."""


@dataclass(frozen=True)
class Branch(Record):
    """A discarded branch of a restarted run: training that was repeated from a checkpoint."""

    begin_seconds: float
    """Time of the checkpoint that training resumed from, in seconds since the start of the run."""
    end_seconds: float
    """Time at which training resumed from it, in seconds since the start of the run."""


@dataclass(frozen=True)
class Breakdown(Record):
    """The time breakdown of all workers over time, in bins of equal length."""

    begin_seconds: float
    """Begin of the first bin, in seconds since the start of the run; negative before the start."""
    bin_seconds: float
    """Length of a bin in seconds."""
    seconds: Mapping[Bucket, tuple[float, ...]]
    """Worker-seconds of each bin by bucket, without empty buckets; the sums are ``Goodput``'s."""
    attempts: tuple[float, ...]
    """Begin of each attempt and restart, in seconds since the start of the run."""
    discarded: tuple[Branch, ...]
    """Discarded branches, one for each restart that discarded steps."""


@dataclass(frozen=True)
class Resumption(Record):
    """A resumption of training after a restart."""

    step: int
    """Number of the step that training resumed from; 0 if it started from scratch."""
    discarded_steps: int
    """Number of discarded steps: done after ``step`` before the restart, and repeated after it.

    They are not part of the result.
    """
    stated: bool
    """Whether the run reported ``step``; otherwise MLBench inferred it from its step numbers."""


@dataclass(frozen=True)
class CheckpointCost(Record):
    """The cost of a run's checkpoints, as means over the ranks."""

    count: int
    """Number of checkpoints per rank."""
    seconds: float
    """Mean time for which a checkpoint blocks training until it is on disk, in seconds."""
    bytes: float
    """Size of a rank's last checkpoint, in bytes."""


@dataclass(frozen=True)
class Saving(Record):
    """A predicted saving: the time by which a run would be shorter."""

    seconds: float
    """Predicted saving in seconds of the run's time."""
    low: float
    """Lower end of the prediction, in seconds."""
    high: float
    """Upper end of the prediction, in seconds."""


@dataclass(frozen=True)
class Finding(Record):
    """A cause of a slow or failed run, with its cost and the predicted saving without it."""

    rule: str
    """Name of the rule that found it, such as ``straggler``; ``docs/findings.md`` lists them."""
    severity: Literal["bad", "warn"]
    """``bad`` for a run that cannot succeed, or takes 1.5 times as long as without the cause."""
    title: str
    """Title of a few words."""
    text: str
    """Evidence and remedy in one or two sentences."""
    seconds: float
    """Cost in worker-seconds."""
    saving: Saving | None
    """Predicted saving if the cause is removed; None if it cannot be predicted."""
    evidence: Literal["loss", "ranks", "breakdown", "timeline"]
    """Section of the run page that shows the evidence."""


@dataclass(frozen=True)
class Result(Record):
    """The result of a run, computed from its stored samples.

    Only samples in the lineage of the final model count; discarded steps are left out. The
    exceptions are ``cost`` and ``goodput``, which account for all worker time.
    """

    run_id: int
    name: str
    """Name that the user gave the run; in archives of earlier versions, its resource name."""
    benchmark: str
    """Name of the benchmark; empty for a run of your own code."""
    state: str
    """State of the run, such as ``FINISHED``."""
    num_workers: int
    division: Division
    """``closed`` for a benchmark with its fixed rules, ``open`` for your own code."""
    rule_violations: tuple[str, ...]
    """Rule violations of a run in the closed division, a sentence each."""
    target: Target | None
    """Target of the run; None without a target."""
    time_to_target: TimeToTarget | None
    """Time to target; None if the target was not reached, or without a target."""
    accuracy_after_time: AccuracyAfterTime | None
    """Value of the target's metric after a fixed time; None without a target."""
    last_value: float | None
    """Last value of the target's metric; None if it was never recorded."""
    best_value: float | None
    """Best value of the target's metric; None if it was never recorded."""
    epochs: int | None
    """Number of epochs started; None if epochs were not recorded."""
    samples: float | None
    """Number of training samples over all ranks; None if a rank did not record its samples."""
    training_seconds: float | None
    """Training time in seconds, without evaluation: the mean over the ranks.

    None if it was not recorded.
    """
    wall_seconds: float | None
    """Seconds from the run's start to its end, or to now; None before the start."""
    samples_per_second: float | None
    """Training throughput of all ranks, in samples per second of training time; None if unknown."""
    phases: Mapping[str, float]
    """Seconds in each phase, mean over the ranks; ``other`` is training time outside all phases."""
    communication_share: float | None
    """Share of the training time spent communicating, from 0 to 1; None if it was not measured."""
    cost: Cost | None
    """Worker time and its price; None before the run's start."""
    energy_joules: float | None
    """Energy that the run's GPUs used, in joules; None if it was not measured."""
    disturbed: tuple[str, ...]
    """Reasons why the result may be distorted, a sentence per disturbed rank.

    Empty if the run was not disturbed.
    """
    contention_share: float | None
    """CPU contention of the rank that had most, as a share of its time, from 0 to 1.

    None if it was not measured, or before the run's end.
    """
    interferences: tuple[RankInterference, ...]
    """CPU contention by attempt and rank, if measured; empty before the run's end."""
    curve: Curve | None
    """Target's metric over time; None without a target, or before the first value."""
    clock_faults: tuple[str, ...] = ()
    """Problems with clocks, a sentence each. They do not change any figure."""
    world_size: int = 0
    """Number of training processes."""
    display_name: str = ""
    """Copy of ``name``, for clients of earlier versions."""
    bytes_sent_per_step: float | None = None
    """Bytes that a rank sends per step to exchange gradients or weights: mean over all ranks.

    None if they were not recorded.
    """
    swept: Mapping[str, str] = field(default_factory=dict)
    """Values of the swept options, by option, as they were written; empty without a sweep."""
    step_seconds: float | None = None
    """Mean time per step over the ranks, in seconds without evaluation; None if unknown."""
    ranks: tuple[RankResult, ...] = ()
    """Results of the ranks that recorded totals."""
    stragglers: Stragglers | None = None
    """Cost of stragglers.

    None for a single rank, or if a rank did not record its communication and training time.
    """
    goodput: Goodput | None = None
    """Time breakdown of all workers; None before the run's start."""
    checkpoints: CheckpointCost | None = None
    """Cost of the checkpoints; None if none was saved, as in a run without restarts."""
    resumptions: tuple[Resumption, ...] = ()
    """Resumptions of training after restarts, in order."""
    hidden_phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase in background threads, mean over the ranks.

    They overlap training, so they are neither in ``phases`` nor in ``goodput``.
    """
    training_time_problem: str = ""
    """Reason why the training time of the final model is unknown, with a remedy; otherwise empty.

    With such a problem, the time to target, the accuracy after time, the number of samples and the
    training time are None.
    """

    injected_faults: int | None = None
    """Number of faults that were injected; None in archives of earlier versions."""
    sampled_steps: int | None = None
    """Number of steps for which every rank recorded its communication individually.

    Stragglers and the straggler wait are computed from these steps. None if the ranks recorded
    only totals.
    """
    outcome: Outcome | None = None
    """Outcome of the run; None while it is active, and in archives of earlier versions."""
    findings: tuple[Finding, ...] = ()
    """At most three causes that made the run slow, or fail; the largest saving first.

    Empty for a healthy run, and in archives of earlier versions.
    """

    @property
    def title(self) -> str:
        """Title of the run."""
        return self.display_name or self.name

    @property
    def outcome_title(self) -> str:
        """Outcome of the run in short form for a list; its state while it has no outcome."""
        return self.outcome.title if self.outcome else self.state

    @property
    def valid_time_to_target(self) -> TimeToTarget | None:
        """Time to target for comparisons; None if not reached, or if the run ended with NaN."""
        is_nan = self.outcome is not None and self.outcome.kind == "nan"
        return None if is_nan else self.time_to_target

    @property
    def seconds_to_target(self) -> float | None:
        """Time to target (training) for comparisons, in seconds.

        None if not reached, not recorded, or if the run ended with NaN.
        """
        time = self.valid_time_to_target
        return time.training_seconds if time else None


@dataclass(frozen=True)
class Summary(Record):
    """Summary statistics of a figure over several equal runs."""

    count: int
    """Number of runs that have the figure."""
    mean: float | None
    """Arithmetic mean; for a time to target, None if a run did not reach the target."""
    mean_low: float | None
    """Lower end of the 95 % confidence interval of the mean.

    By Student's t of the logarithms (Cox), which assumes an approximately lognormal distribution.
    For shares, by Student's t on the logit scale, and therefore from 0 to 1.
    None for fewer than three runs, or without a mean.
    """
    mean_high: float | None
    """Upper end of the 95 % confidence interval of the mean.

    None for fewer than three runs, or without a mean.
    """
    median: float | None
    """Median; a run that did not reach the target counts as the slowest.

    None if the median is such a run.
    """
    minimum: float | None
    """Smallest value; None if no run has the figure."""
    maximum: float | None
    """Largest value; None if no run has the figure."""
    standard_deviation: float | None
    """Sample standard deviation (n - 1); None for fewer than two values."""
