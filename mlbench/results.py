"""The records of results, as the master computes them.

A figure that was not recorded, or that is no finite number, is None in their JSON. Seconds,
samples and joules are base units.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.names import Bucket
from mlbench.records import Disturbance, Division, Goal, Record

# MLBench's own time for "accuracy after time".
DEFAULT_AFTER_SECONDS = 7200.0


FEWEST_LOOKED_AT = 5
"""Runs of a group from which on a set may end early."""


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
    """Seconds in which a worker was taken, summed over all ranks and attempts."""
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
    """By so much longer than a typical rank it took for its own work, where it took longer."""
    parts: Mapping[Bucket, float]
    """The same by what it did; below 0 for what it did faster."""
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
    """The same in a sentence; empty where it cost less than 5 %."""


@dataclass(frozen=True)
class RankGoodput(Record):
    """Where the time of a worker went in an attempt, until the next one or the end."""

    rank: int
    attempt: int
    seconds: Mapping[Bucket, float]
    """They add up to all of it, to the microsecond. The first attempt begins with the order."""
    restarts: int = 0
    """How often torchrun began its processes anew in this attempt."""
    again_seconds: float = 0.0
    """What those needed until they trained: a part of `seconds`."""


@dataclass(frozen=True)
class Goodput(Record):
    """Where every worker-second went, from the order of a run to its end, or so far."""

    share: float | None
    """Of all worker-seconds, from 0 to 1: they moved the final model forward.

    That is compute and communication. None where no training time was recorded.
    """
    seconds: Mapping[Bucket, float]
    """Of all workers and attempts, which they add up to; buckets that are empty are missing."""
    ranks: tuple[RankGoodput, ...]
    """The same by rank, then by attempt."""


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
    """The run's own name, as it was ordered; empty in archives from before there were any."""
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

    @property
    def title(self) -> str:
        """The run's name for people."""
        return self.display_name or self.name


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
    """What the runs are drawn from has a mean between this and the next, with 95 % confidence.

    By Student's t of the logarithms (Cox). None for fewer than three runs.
    """
    mean_high: float | None
    """None also if a run did not reach the target."""
    left_out: int
    """How many runs the mean leaves out: 2 or 0."""
    median: float | None
    minimum: float | None
    maximum: float | None
    standard_deviation: float | None
    """Of all that have it, the sample's (n - 1); None for fewer than two."""


@dataclass(frozen=True)
class Evidence(Record):
    """What runs tell of how a group differs from another: the first one, unless values are swept.

    In a sweep, the other has the first value of a swept key, the first such key of which this
    group has a later value, and is like it in all else; if it has all the first values, the other
    has the fewest workers.

    They are judged by their training time to accuracy, or by samples a second where a time is
    missing in both groups.
    """

    p: float
    """Of a two-sided test: how often equal runs would differ as much.

    If several groups are judged at once, it is corrected by Holm's method.
    """
    distinguishable: bool
    """Whether that is less than 0.05."""
    detectable: float | None
    """The smallest relative difference that so many runs show in four of five cases: 0.15 is 15 %.

    None where the spread is not known.
    """
    runs_needed: int | None
    """How many runs of each group would show the difference seen, if it were the true one, in four
    of five cases."""
    text: str
    """The same in words."""
    than: str = ""
    """In what the other group differs, such as ``1 worker`` or ``exchange flat``."""
    times_as_fast: float | None = None
    """By their means; None where one has none."""
    test: Literal["Mann-Whitney", "paired t"] = "Mann-Whitney"
    """Paired, of the logarithms, where both groups had the same seeds."""
    can_tell: bool = True
    """Whether so few runs can differ significantly at all."""


@dataclass(frozen=True)
class Convergence(Record):
    """How many epochs runs take to the goal, beside the reference of their task (MLPerf's RCP)."""

    batch_size: int
    epochs: float
    """The mean over the runs, without the fastest and the slowest."""
    reference_epochs: float | None
    """The same of the reference; None where it has none for a batch this large."""
    least_epochs: float | None
    """The least that so many runs may take without being significantly faster than it."""
    is_too_fast: bool
    factor: float
    """What a score is multiplied by for having converged faster; at least 1."""
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Score(Record):
    """The score of an official set by MLPerf's rules: the mean time of some of its runs."""

    set_name: str
    run_ids: tuple[int, ...]
    """The runs that were chosen for it; the fastest and the slowest of them do not count."""
    seconds: float | None
    """From a run's start to the goal; None if the result is invalid, or not complete."""
    normalized_seconds: float | None
    """The same as if the runs had taken as many epochs as the reference, if they took fewer."""
    text: str
    """The same in words, or why there is none."""


@dataclass(frozen=True)
class Group(Record):
    """Runs that differ in nothing but their seed, name and moment.

    Its speed-ups are over the first group; in a sweep, over the first one with its swept values.
    """

    label: str
    """Tells it from the other groups, such as ``2 workers``."""
    num_workers: int
    run_ids: tuple[int, ...]
    reached: int
    """How many runs reached the target."""
    disturbed: int
    """How many runs were disturbed."""
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
    """Mean training time to accuracy of that group by this one's.

    This and the next three are None where the two have other data or another goal.
    """
    efficiency: float | None
    """The speed-up by how many times more workers it takes: 1 is perfect.

    None for a group with as many workers as that one.
    """
    throughput_speedup: float | None
    """This group's mean samples a second by that one's."""
    throughput_efficiency: float | None
    evidence: Evidence | None
    """None where there is no other group, for other data or another goal, and for a single run."""
    convergence: Convergence | None
    """None where the task has no reference to this goal, or too few runs reached it."""
    score: Score | None
    """None for runs of no official set."""
    doubt: str
    """Why its efficiency, above 1.05, is hardly that of its workers; else empty."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what is swept, if all runs that are compared sweep the same; else empty."""
    bytes_sent_per_step: Summary | None = None
    goodput_share: Summary | None = None
    """Of all worker-seconds, from 0 to 1: they moved the final model forward."""
    largest_bucket: Bucket | None = None
    """What took most of the others, over all of its runs."""
    speedup_low: float | None = None
    """The speed-up is between this and the next, with 95 % confidence (Welch's t of the
    logarithms); so are the others. None where a group has one run, or one missed the goal."""
    speedup_high: float | None = None
    efficiency_low: float | None = None
    efficiency_high: float | None = None
    throughput_speedup_low: float | None = None
    throughput_speedup_high: float | None = None
    throughput_efficiency_low: float | None = None
    throughput_efficiency_high: float | None = None

    def is_known(self, percent: float) -> bool:
        """Check if the mean time to accuracy, or the throughput, is known to within so much.

        Of fewer runs than five it is not, however much they agree: that may be by chance.
        """
        found = self.training_seconds_to_accuracy or self.samples_per_second
        if found is None or found.mean is None or found.mean_low is None or found.mean_high is None:
            return False
        narrow = (found.mean_high - found.mean_low) / 2 <= percent / 100 * found.mean
        return narrow and len(self.run_ids) >= FEWEST_LOOKED_AT


@dataclass(frozen=True)
class Crossing(Record):
    """The bandwidth from which on one algorithm is faster than another."""

    where: str
    """What both had besides, such as ``2 workers``."""
    below: str
    """The algorithm that is faster at less bandwidth."""
    above: str
    """The one that is faster at more."""
    bandwidth: float
    """Mbit/s, interpolated between two measured bandwidths: the logarithm of the time over that of
    the bandwidth."""
    low: float | None
    """It is between this and the next, with 95 % confidence.

    None where it may be outside of what was measured, or where there are fewer than three runs.
    """
    high: float | None
    on_frontier: bool
    """Whether the two are the fastest of all there."""
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Profile(Record):
    """How close an algorithm comes to the fastest one, over all workloads."""

    algorithm: str
    ratios: tuple[float | None, ...]
    """Its median time by that of the fastest, on each workload, the least first.

    None where half of its runs or more did not reach the goal.
    """
    score: float
    """AlgoPerf's: the share of workloads on which it takes at most τ times as long as the fastest,
    as the mean over τ from 1 to 4."""

    def share(self, times: float) -> float:
        """Return the share of workloads on which it takes at most so many times as long."""
        within = sum(ratio is not None and ratio <= times for ratio in self.ratios)
        return within / len(self.ratios)


@dataclass(frozen=True)
class Frontier(Record):
    """Which algorithm is how fast, by bandwidth."""

    crossings: tuple[Crossing, ...]
    """By what both had besides, and bandwidth."""
    profiles: tuple[Profile, ...]
    """In the order of the runs. A workload is a number of workers with what they may send."""


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
    breaks: Literal["yes", "no", "unknown", "scaling", "learning"]
    """Whether runs that differ in it cannot be compared; unknown where one does not state it.

    `learning`: they can, but it may have a part in what is learned, as a learning rate has.

    `scaling`: they can, but as their workers had unequal means, such as cores, speed-up and
    efficiency are not those of the number of workers.
    """
    values: tuple[Value, ...]
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Axis(Record):
    """Something that a sweep varies: a key, or the number of workers."""

    key: str
    unit: str
    """Of its values, where they are plain numbers; else empty."""
    values: tuple[str, ...]
    """As they were given: ascending if all are numbers, else in the order in which they came."""
    numbers: tuple[float, ...] | None
    """The same as numbers, in `unit`; None if one is none."""
    is_wide: bool
    """Whether a logarithmic axis suits the numbers: the last is at least 8 times the first."""

    @property
    def title(self) -> str:
        """The key with its unit, such as ``bandwidth [Mbit/s]``."""
        return f"{self.key} [{self.unit}]" if self.unit else self.key


@dataclass(frozen=True)
class Panel(Record):
    """Groups of a sweep that differ in two things at most."""

    label: str
    """What they have in common, such as ``2 workers``; empty if that is the case of all groups."""
    cells: tuple[tuple[int | None, ...], ...]
    """Positions in `groups`: a row for each value of `by`, a column for each one of `across`."""


@dataclass(frozen=True)
class Cell(Record):
    """A figure of a group of a sweep."""

    mean: float
    low: float | None
    """The mean is between this and the next, with 95 % confidence; None where that is not known."""
    high: float | None
    heat: int
    """From 0, the worst of the chart, to 6, the best."""


@dataclass(frozen=True)
class Chart(Record):
    """A figure of the groups of a panel."""

    title: str
    """Such as ``Throughput by bandwidth and exchange, 2 workers``."""
    axis: str
    unit: str
    is_wide: bool
    """Whether a logarithmic axis suits the figures."""
    cells: tuple[tuple[Cell | None, ...], ...]
    """A row for each value of `by`, a column for each one of `across`; None: no such figure."""


@dataclass(frozen=True)
class Sweep(Record):
    """How the groups of a sweep are laid out to be seen."""

    across: Axis
    by: Axis | None
    """None if nothing else is varied: there is one row."""
    panels: tuple[Panel, ...]
    text: str = ""
    """How many groups differ from their baseline; empty for a few groups."""
    charts: tuple[Chart, ...] = ()
    """What there is to see: time to accuracy, then throughput, each by panel."""


Verdict = Literal["yes", "scaling", "disturbed", "no", "unknown"]
"""`scaling`: yes, but not by their number of workers; `disturbed`: yes, but not by their times."""


@dataclass(frozen=True)
class Fastest(Record):
    """The group that reached the goal after the least training time, by the means."""

    group: int
    """Its position in `groups`, as the next is that of the slowest."""
    slowest: int
    times_as_fast: float


@dataclass(frozen=True)
class Judgement(Record):
    """Whether a comparison is fair, in what its runs differ, and what else is to be known."""

    verdict: Verdict = "yes"
    sentence: str = ""
    """The verdict in words, as a heading of `reasons`; empty for a single run."""
    title: str = ""
    """The same without anything about reasons, and why in the next: two lines of a page."""
    why: str = ""
    reasons: tuple[str, ...] = ()
    """Why they cannot be compared, why it is not known, or why speed-ups mislead."""
    learning: tuple[str, ...] = ()
    """Differences that may have a part in what is learned, such as a learning rate."""
    learned_by: str = ""
    """A sentence that names them; empty if there are none."""
    differences: tuple[str, ...] = ()
    """Those that have none, such as the kind of processor."""
    departures: tuple[str, ...] = ()
    """Where runs leave the rules of their task."""
    disturbed: tuple[str, ...] = ()
    """Which runs were disturbed, and by what."""
    notes: tuple[str, ...] = ()
    """What became of sets, scores, and whether groups differ by more than chance."""
    clock_faults: tuple[str, ...] = ()
    """Which runs' clocks were wrong."""
    fastest: Fastest | None = None
    """None where a group alone has a time, goals differ, or some runs were disturbed."""


@dataclass(frozen=True)
class Failures(Record):
    """What a group of runs kept of its time between failures, from its first to its last step."""

    group: int
    """Its position in `groups`."""
    failures: int
    """How often its runs were begun anew, by MLBench or torchrun."""
    between_seconds: float | None
    """The mean time between two of them."""
    restart_seconds: float | None
    """From a failure to where the training goes on, the steps left out that are done again."""
    checkpoint_seconds: float | None
    """What a checkpoint costs; this and the next are None where none is recorded."""
    interval_seconds: float | None
    """The training between two checkpoints, in the mean."""
    kept: Summary | None
    """The share of its time, from 0 to 1, that was not lost to failures and checkpoints."""
    expected: float | None
    """The same by Daly's formula, of these costs; no failure comes while no process runs."""
    best_interval_seconds: float | None
    """The interval that would keep most, by Daly's formula."""


@dataclass(frozen=True)
class Comparison(Record):
    """Several runs beside each other."""

    comparable: Literal["yes", "no", "unknown"]
    differences: tuple[Difference, ...]
    """Those that break comparability first."""
    groups: tuple[Group, ...]
    """In order of workers; in a sweep in that of the swept values, then of workers."""
    results: tuple[Result, ...]
    """In the order in which the runs were named."""
    sets: tuple[str, ...] = ()
    """What became of each benchmark set that they belong to, a sentence each."""
    sweep: Sweep | None = None
    """None where the runs do not all sweep the same, or only one value of it is compared."""
    frontier: Frontier | None = None
    """Of a sweep over bandwidth and what tells algorithms apart; None for others."""
    caution: str = ""
    """That some groups have too few runs to be told apart, however much they differ; or empty."""
    judgement: Judgement = Judgement()
    """All of this in words."""
    failures: tuple[Failures, ...] = ()
    """Of the groups whose runs were ordered to fail."""


@dataclass(frozen=True)
class SetPoint(Record):
    """A run of a set that counts."""

    run_id: int
    name: str
    """What it has of what the set sweeps, and its workers: ``exchange flat, 2 workers``."""
    values: tuple[str, ...]
    """On each of the axes."""
    figure: float | None
    """None if it is not known; of a time, if the run has not reached its goal."""


@dataclass(frozen=True)
class Effect(Record):
    """How strongly the figure goes with what a set sweeps."""

    key: str
    value: str
    """Of values without an order, that which is held against all others; empty for numbers."""
    correlation: float
    """Spearman's, from -1 to 1: above 0, the figure is higher where the value is."""
    low: float | None
    """The true one lies between this and the next with 95 %; None for fewer than five runs."""
    high: float | None
    runs: int


@dataclass(frozen=True)
class SetAnalysis(Record):
    """How the runs of a set did over what it sweeps, and what is left of the set."""

    measure: str
    """What the figures are: the training time to the goal, or the throughput if none reached it."""
    unit: str
    is_less_better: bool
    axes: tuple[Axis, ...]
    """What differs among the places: what is swept, and the workers."""
    points: tuple[SetPoint, ...]
    """In the order of the places."""
    effects: tuple[Effect, ...]
    """The strongest first."""
    text: str
    """What matters most, as far as that can be told."""
    places_left: int
    """Those that want a run, or have one that goes on."""
    seconds_left: float | None
    """How long these take, by what the others took; None while none has finished."""
