"""The records of results, as the master computes them.

A figure that was not recorded, or that is no finite number, is None in their JSON. Seconds,
samples and joules are base units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mlbench.records import Division, Goal, Record

# MLBench's own time for "accuracy after time".
DEFAULT_AFTER_SECONDS = 7200.0


@dataclass(frozen=True)
class TimeToAccuracy(Record):
    """When the target was reached first."""

    training_seconds: float | None
    """Training time until then, evaluation left out, as MLBench counts it."""
    wall_seconds: float
    """Time since the start of the run, as MLPerf counts it."""


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
    """Seconds in which a worker was taken, summed over all ranks and attempts."""
    worker_seconds_to_target: float | None
    """The same, until the target was reached."""
    price: float | None
    """Of a worker-second, in whatever currency; None where none was given."""
    total: float | None
    to_target: float | None


@dataclass(frozen=True)
class Curve(Record):
    """The target's metric over time, thinned out: columns of the same length."""

    wall_seconds: tuple[float, ...]
    """Since the start of the run."""
    training_seconds: tuple[float | None, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Result(Record):
    """The figures of one run, computed from its stored series."""

    run_id: int
    name: str
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
    """Over all ranks."""
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
    curve: Curve | None


@dataclass(frozen=True)
class Summary(Record):
    """A figure over several runs of one kind."""

    count: int
    """How many runs have it."""
    mean: float | None
    """Without the fastest and the slowest, as MLPerf does, where there are at least three runs.

    Of a time to accuracy, a run that did not reach the target counts as the slowest; None where
    such a run would have to be counted.
    """
    mean_low: float | None
    """The mean is between this and the next, with 95 % confidence (a bootstrap of the runs).

    None for fewer than three runs, or if a resample had no mean.
    """
    mean_high: float | None
    left_out: int
    """How many runs the mean leaves out: 2 or 0."""
    median: float | None
    minimum: float | None
    maximum: float | None
    standard_deviation: float | None
    """Of all that have it, the sample's (n - 1); None for fewer than two."""


@dataclass(frozen=True)
class Evidence(Record):
    """What runs tell of how a group differs from the first one.

    They are judged by their training time to accuracy, or by samples a second where a time is
    missing in both groups.
    """

    p: float
    """Of a two-sided Mann-Whitney test: how often equal runs would differ as much."""
    distinguishable: bool
    """Whether that is less than 0.05."""
    detectable: float | None
    """The smallest relative difference that so many runs show in four of five cases: 0.15 is 15 %.

    None where the spread is not known.
    """
    runs_needed: int | None
    """How many runs of each group would show the difference seen, in four of five cases."""
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Group(Record):
    """Runs that differ in nothing but their seed, name and moment."""

    label: str
    """Tells it from the other groups, such as ``2 workers``."""
    num_workers: int
    run_ids: tuple[int, ...]
    reached: int
    """How many runs reached the target."""
    training_seconds_to_accuracy: Summary | None
    wall_seconds_to_accuracy: Summary | None
    accuracy_after_time: Summary | None
    samples_per_second: Summary | None
    communication_share: Summary | None
    worker_seconds: Summary | None
    energy_joules: Summary | None
    phases: Mapping[str, float]
    """Mean seconds over the runs."""
    speedup: float | None
    """Mean training time to accuracy of the first group by this one's.

    This and the next three are None where the two have other data or another goal.
    """
    efficiency: float | None
    """The speed-up by how many times more workers it takes: 1 is perfect.

    None for a group with as many workers as the first.
    """
    throughput_speedup: float | None
    """This group's mean samples a second by the first one's."""
    throughput_efficiency: float | None
    evidence: Evidence | None
    """None for the first group, for other data or another goal, and for a single run."""
    doubt: str
    """Why its efficiency, above 1.05, is hardly that of its workers; else empty."""


@dataclass(frozen=True)
class Value(Record):
    """One of the values that a fact has, and the runs that have it."""

    value: str
    run_ids: tuple[int, ...]


@dataclass(frozen=True)
class Difference(Record):
    """A fact in which runs differ."""

    name: str
    """Such as ``batch_size`` or ``cpu``."""
    breaks: Literal["yes", "no", "unknown", "scaling"]
    """Whether runs that differ in it cannot be compared; unknown where one does not state it.

    `scaling`: they can, but as their workers had unequal means, such as cores, speed-up and
    efficiency are not those of the number of workers.
    """
    values: tuple[Value, ...]
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Comparison(Record):
    """Several runs beside each other."""

    comparable: Literal["yes", "no", "unknown"]
    differences: tuple[Difference, ...]
    """Those that break comparability first."""
    groups: tuple[Group, ...]
    """In order of workers; the first is what the others are compared with."""
    results: tuple[Result, ...]
    """In the order in which the runs were named."""
