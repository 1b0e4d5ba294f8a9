"""The records of comparisons and sets, as the master computes them from results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.names import Bucket
from mlbench.contract.records import Record
from mlbench.contract.results import Result, Summary
from mlbench.contract.sweeps import Frontier, Sweep

FEWEST_LOOKED_AT = 5
"""Runs of a group from which on a set may end early."""


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
    """Share of worker-seconds that advanced the final model, from 0 to 1."""
    largest_bucket: Bucket | None = None
    """What took most of the others, over all of its runs."""
    contention_share: float | None = None
    """Share of the time in which a rank waited for a core that processes outside its run had.

    Of the rank of each run that waited most; the mean over the runs."""
    contention_cost: float | None = None
    """The share by which that is estimated to have lengthened the runs."""
    contention_doubt: str = ""
    """Says that this may explain how the group differs from the other one; else empty."""
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
class Value(Record):
    """One of the values that a fact has, and the runs that have it."""

    value: str
    run_ids: tuple[int, ...]


Breaks = Literal["yes", "no", "unknown", "scaling", "learning"]


@dataclass(frozen=True)
class Difference(Record):
    """A fact in which runs differ."""

    name: str
    """Such as ``batch_size`` or ``cpu``."""
    breaks: Breaks
    """Whether runs that differ in it cannot be compared; unknown where one does not state it.

    `learning`: they can, but it may have a part in what is learned, as a learning rate has.

    `scaling`: they can, but as their workers had unequal means, such as cores, speed-up and
    efficiency are not those of the number of workers.
    """
    values: tuple[Value, ...]
    text: str
    """The same in words."""


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
    injected: int
    """How many planned or ordered failures were carried out, also those after which it went on."""
    between_seconds: float | None
    """The mean time between two times that its runs were begun anew."""
    restart_seconds: float | None
    """From a failure to where the training goes on, the steps left out that are done again."""
    checkpoint_seconds: float | None
    """What a checkpoint costs; this and the next are None where none is recorded."""
    interval_seconds: float | None
    """The training between two checkpoints, in the mean."""
    kept: Summary | None
    """The share of its time, from 0 to 1, that was not lost to failures and checkpoints."""
    expected: float | None
    """The same by Daly's formula, of these costs; no failure comes while no process runs.

    None where ranks were stopped, slowed or cut off, of which the formula knows nothing.
    """
    best_interval_seconds: float | None
    """The interval that would keep most, by Daly's formula."""
    text: str = ""
    """That none of the planned failures fell within its runs; else empty."""


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
