"""The records of results, as the master computes them.

A figure that was not recorded, or that is no finite number, is None in their JSON. Seconds,
samples and joules are base units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.names import Bucket
from mlbench.contract.records import Disturbance, Division, Goal, Outcome, Record

# MLBench's own time for "accuracy after time".
DEFAULT_AFTER_SECONDS = 7200.0


@dataclass(frozen=True)
class TimeToAccuracy(Record):
    """When the target was reached first."""

    training_seconds: float | None
    """Training time until then, evaluation left out, as MLBench counts it."""
    wall_seconds: float
    """Time since the start of the run, as MLPerf counts it."""
    epochs: int | None = None
    """Epochs begun until then; None where they were not recorded."""


@dataclass(frozen=True)
class AccuracyAfterTime(Record):
    """What the model of a certain time reaches: its last evaluation within that time."""

    limit_seconds: float
    """The time: the run's deadline, or two hours."""
    value: float | None
    """None where nothing was evaluated within it."""
    at_seconds: float | None
    """When that evaluation was."""
    clock: Literal["training", "wall"]
    """Training time, or time since the start where that was not recorded."""


@dataclass(frozen=True)
class Cost(Record):
    """The time in which workers were taken, and its price."""

    worker_seconds: float
    """Seconds from the run's turn in the queue to its end, summed over its workers.

    It equals the sum of the time breakdown, `goodput.seconds`.
    """
    worker_seconds_to_target: float | None
    """The same, until the target was reached."""
    price: float | None
    """Of a worker-second, in whatever currency; None where none was given."""
    total: float | None
    to_target: float | None


@dataclass(frozen=True)
class RankDisturbance(Record):
    """What kept a rank from its cores in one attempt."""

    rank: int
    attempt: int
    disturbed: bool
    """Whether it waited for others, or had its cores stolen, for more than 0.05 of the time."""
    waiting_share: float
    """Of the time, from 0 to 1: it waited for a core that others had."""
    stolen_share: float | None
    """Of its cores' time, from 0 to 1: the hypervisor had them."""
    text: str
    """The same in words, with what others used."""
    measured: Disturbance


@dataclass(frozen=True)
class Curve(Record):
    """The target's metric over time, thinned out: columns of the same length."""

    wall_seconds: tuple[float, ...]
    """Since the start of the run."""
    training_seconds: tuple[float | None, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class RankResult(Record):
    """What one rank did until it recorded its last totals."""

    rank: int
    steps: int | None
    """None where its totals name no step."""
    samples: float | None
    training_seconds: float | None
    """Evaluation left out."""
    step_seconds: float | None
    """The mean of a step."""
    compute_seconds: float | None
    """The mean of a step, communication left out; None where that was not measured."""
    communication_share: float | None
    """Of the training time, from 0 to 1."""
    phases: Mapping[str, float]
    """Seconds in each phase; ``other`` is training time in none."""
    waiting_share: float | None
    """Of the time of the latest attempt, from 0 to 1: it waited for a core that others had."""
    network_sent_bytes: float | None = None
    """All that its namespace, or its pod, has sent in the latest attempt, headers included."""
    network_received_bytes: float | None = None


@dataclass(frozen=True)
class LateRank(Record):
    """How late a rank came to the exchanges of the run."""

    rank: int
    seconds: float
    """Seconds by which its own work took longer than a typical rank's, in steps where it did."""
    parts: Mapping[Bucket, float]
    """The same seconds, divided by what the rank spent more time on than a typical rank."""
    times_as_fast: float
    """The speed with a typical rank in place of this one alone, relative to that of the run."""


@dataclass(frozen=True)
class Stragglers(Record):
    """What it cost that ranks came late to exchanges, for which the others waited."""

    times_as_fast: float
    """The speed if no rank had been late, relative to that of the run."""
    ranks: tuple[LateRank, ...]
    """All of them; the one that was late most comes first."""
    text: str
    """The same in a sentence; empty where no rank is late by more than chance and 5 %."""
    named: int | None = None
    """The rank that held up the others; None where none did by more than chance and 5 %."""


@dataclass(frozen=True)
class RankGoodput(Record):
    """Where the time of a worker went in an attempt, until the next one or the end."""

    rank: int
    attempt: int
    seconds: Mapping[Bucket, float]
    """They add up to all of it, to the microsecond. The first attempt begins after the queue."""
    restarts: int = 0
    """How often torchrun began its processes anew in this attempt."""
    again_seconds: float = 0.0
    """What those needed until they trained: a part of `seconds`."""


@dataclass(frozen=True)
class Goodput(Record):
    """Where every worker-second went, from a run's turn in the queue to its end, or so far."""

    share: float | None
    """Share of worker-seconds that advanced the final model, from 0 to 1.

    These are compute and communication. None where no training time was recorded.
    """
    seconds: Mapping[Bucket, float]
    """Of all workers and attempts, which they add up to; buckets that are empty are missing."""
    ranks: tuple[RankGoodput, ...]
    """The same by rank, then by attempt."""
    whole_step_share: float | None = None
    """Share of worker-seconds within steps of the final model, from 0 to 1.

    Google's ml-goodput-measurement defines goodput so: straggler wait and CPU contention are in it.
    """
    queued_seconds: float = 0.0
    """Seconds in the queue, in which the run held no workers; they are in no bucket."""


@dataclass(frozen=True)
class Resumption(Record):
    """Where a run went on after a restart."""

    step: int
    """The steps that it goes on from; 0: it began anew."""
    abandoned_steps: int
    """The steps after that which it had done, and did again: they are no part of the result."""
    stated: bool
    """Whether it said from which step; otherwise its step went back."""


@dataclass(frozen=True)
class CheckpointCost(Record):
    """What its checkpoints cost a run: the means over ranks."""

    count: int
    seconds: float
    """For which each one held the training up, until it lay on the disk."""
    bytes: float
    """Of the last one of a rank."""


@dataclass(frozen=True)
class Result(Record):
    """The figures of one run, computed from its stored series."""

    run_id: int
    name: str
    """The name that its user gave the run; in archives of earlier versions, its resource name."""
    benchmark: str
    """The official task; empty for a run of one's own code."""
    state: str
    num_workers: int
    division: Division
    departures: tuple[str, ...]
    """Where a run of the closed division leaves the rules of its task, a sentence each."""
    target: Goal | None
    time_to_accuracy: TimeToAccuracy | None
    """None where the target was not reached, or there is none."""
    accuracy_after_time: AccuracyAfterTime | None
    """None where there is no target."""
    last_value: float | None
    """Of the target's metric."""
    best_value: float | None
    epochs: int | None
    samples: float | None
    """Over all ranks; None where one that trained has not recorded its own."""
    training_seconds: float | None
    """Evaluation left out; the mean over the ranks."""
    wall_seconds: float | None
    """From the run's start to its end, or to now; None before its start."""
    samples_per_second: float | None
    """Over all ranks, in training time."""
    phases: Mapping[str, float]
    """Seconds in each phase, the mean over the ranks; ``other`` is training time in none."""
    communication_share: float | None
    """Of the training time, from 0 to 1."""
    cost: Cost | None
    """None before the run's start."""
    energy_joules: float | None
    """Of its GPUs, while it ran; None where that was not measured."""
    disturbed: tuple[str, ...]
    """Why its figures are not its own, a sentence for each rank; empty if it was not disturbed."""
    waiting_share: float | None
    """Of the time, from 0 to 1: the rank that waited most did so for a core that others had.

    None where that was not measured, or before the run's end.
    """
    disturbances: tuple[RankDisturbance, ...]
    """By attempt and rank, as far as something was measured; empty before the run's end."""
    curve: Curve | None
    clock_faults: tuple[str, ...] = ()
    """What was wrong with clocks, a sentence each; no time depends on it."""
    world_size: int = 0
    """How many processes trained, a rank each."""
    display_name: str = ""
    """Same as `name`: for clients of earlier versions."""
    bytes_sent_per_step: float | None = None
    """By a rank, to exchange gradients or weights: the mean over steps and ranks."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what its set sweeps, as they were given."""
    step_seconds: float | None = None
    """The mean time of a step over the ranks, evaluation left out."""
    ranks: tuple[RankResult, ...] = ()
    """Those that recorded totals."""
    stragglers: Stragglers | None = None
    """None where one trains alone, or not all record their communication and training time."""
    goodput: Goodput | None = None
    """None before the run's start."""
    checkpoints: CheckpointCost | None = None
    """None where none was saved, as in a run that may not be restarted."""
    resumptions: tuple[Resumption, ...] = ()
    """After restarts, in order. All other figures are of the steps that led to the last model."""
    hidden_phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase in threads other than the one that steps: the mean over the ranks.

    They overlap the training, so they are in neither `phases` nor `goodput`.
    """
    training_time_problem: str = ""
    """Why the training time of the final model is unknown, with the remedy; else empty.

    Then the time to accuracy, the accuracy after time, the samples and the training time are None.
    """

    injected_faults: int | None = None
    """How many planned or ordered failures were carried out; None in earlier archives."""
    sampled_steps: int | None = None
    """Number of steps whose communication all ranks recorded one by one.

    `stragglers` and waiting are computed from these. None where ranks recorded totals alone.
    """
    outcome: Outcome | None = None
    """What the run achieved; None while it is active, and in archives of earlier versions."""

    @property
    def title(self) -> str:
        """The run's name for people."""
        return self.display_name or self.name

    @property
    def outcome_title(self) -> str:
        """What the run achieved, in words for a list; its state until that is known."""
        return self.outcome.title if self.outcome else self.state

    @property
    def valid_time_to_accuracy(self) -> TimeToAccuracy | None:
        """The time to accuracy as comparisons count it: None if the run ended with NaN."""
        is_nan = self.outcome is not None and self.outcome.kind == "nan"
        return None if is_nan else self.time_to_accuracy

    @property
    def seconds_to_accuracy(self) -> float | None:
        """Training time to accuracy; None if not reached, not recorded, or NaN at the end."""
        time = self.valid_time_to_accuracy
        return time.training_seconds if time else None


@dataclass(frozen=True)
class Summary(Record):
    """A figure over several runs of one kind."""

    count: int
    """How many runs have it."""
    mean: float | None
    """The arithmetic mean. Of a time to accuracy, None if a run did not reach the target."""
    mean_low: float | None
    """What the runs are drawn from has this mean or a larger one, with 95 % confidence.

    By Student's t of the logarithms (Cox), which assumes that the figures are about lognormal. None
    for fewer than three runs, or without a mean.
    """
    mean_high: float | None
    """The other end of that interval."""
    median: float | None
    """A run that did not reach the target counts as the slowest; None if it is the median."""
    minimum: float | None
    maximum: float | None
    standard_deviation: float | None
    """Of all that have it, the sample's (n - 1); None for fewer than two."""
