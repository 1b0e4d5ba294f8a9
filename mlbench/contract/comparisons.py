"""Records of comparisons, which the master computes from results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.names import Bucket
from mlbench.contract.records import Record
from mlbench.contract.results import Result, Summary
from mlbench.contract.sweeps import Frontier, Sweep

MIN_LOOKED_AT = 5
"""Minimum number of runs per group before a benchmark set may end early."""


@dataclass(frozen=True)
class SignificanceTest(Record):
    """A significance test between a group and its baseline group.

    The baseline is the first group. In a sweep, it is the group with the first value of one swept
    option and otherwise equal settings: the first option in which this group has a later value. A
    group with the first value of every option has the fewest workers as its baseline.

    The test compares the time to target (training), or the throughput if a time is missing in both
    groups.
    """

    p: float
    """P-value of a two-sided test, corrected by Holm's method if several groups are tested."""
    distinguishable: bool
    """Whether the difference is significant: ``p`` is less than 0.05."""
    detectable: float | None
    """Smallest relative difference that the test detects with 80 % power; 0.15 is 15 %.

    None if the spread of the runs is unknown.
    """
    runs_needed: int | None
    """Number of runs per group that would detect the observed difference with 80 % power.

    None if it is unknown, or too large to be useful.
    """
    text: str
    """Summary in words."""
    than: str = ""
    """Difference of the baseline group, such as ``1 worker`` or ``exchange flat``."""
    times_faster: float | None = None
    """Speedup over the baseline group, from the means; None if a group has no mean."""
    test: Literal["Mann-Whitney", "paired t"] = "Mann-Whitney"
    """Name of the test; ``paired t``, of logarithms, if both groups have the same seeds."""
    can_tell: bool = True
    """Whether the number of runs is large enough for any difference to be significant."""
    baseline: int = 0
    """Position of the baseline group in ``groups``, from 0."""
    times_faster_low: float | None = None
    """Lower end of the speedup's 95 % confidence interval, not corrected for several comparisons.

    By Student's t of the logarithms, paired if the test is; None if a run missed the target.
    """
    times_faster_high: float | None = None
    """Upper end of the speedup's 95 % confidence interval; None as for the lower end."""


@dataclass(frozen=True)
class Convergence(Record):
    """Number of epochs to the target, and the benchmark's reference for it (MLPerf's RCP)."""

    batch_size: int
    epochs: float
    """Mean number of epochs to the target, without the fastest and the slowest run."""
    reference_epochs: float | None
    """Mean number of epochs of the reference; None without a reference for this batch size."""
    least_epochs: float | None
    """Number of epochs below which the runs converge significantly faster than the reference.

    None without a reference for this batch size.
    """
    is_too_fast: bool
    """Whether the runs converge significantly faster than the reference."""
    factor: float
    """Factor, at least 1, by which the score is normalized if the runs converge too fast."""
    text: str
    """Summary in words."""


@dataclass(frozen=True)
class Score(Record):
    """The score of an official benchmark set by MLPerf's rules: a mean time to target."""

    set_name: str
    """Name of the benchmark set."""
    run_ids: tuple[int, ...]
    """Runs that the score is based on. The fastest and the slowest of them do not count."""
    seconds: float | None
    """Score: mean time to target (wall clock), in seconds; None if invalid or incomplete."""
    normalized_seconds: float | None
    """Score in seconds, normalized to the reference's epochs if the runs needed fewer.

    None if invalid or incomplete.
    """
    text: str
    """Summary in words, or the reason for a missing score."""


@dataclass(frozen=True)
class Group(Record):
    """A group of runs that differ only in seed, name and time.

    Speedups are relative to the first group. In a sweep, they are relative to the first group with
    the same swept values.
    """

    label: str
    """Label that distinguishes the group from the others, such as ``2 workers``."""
    num_workers: int
    run_ids: tuple[int, ...]
    reached: int
    """Number of runs that reached the target."""
    disturbed: int
    """Number of runs with a disturbed rank."""
    training_seconds_to_target: Summary | None
    """Time to target (training), in seconds; None if no run has a target."""
    wall_seconds_to_target: Summary | None
    """Time to target (wall clock), in seconds; None if no run has a target."""
    accuracy_after_time: Summary | None
    """Value of the target's metric after a fixed time; None if no run has one."""
    samples_per_second: Summary | None
    """Training throughput, in samples per second; None if no run has one."""
    communication_share: Summary | None
    """Share of the training time spent communicating, from 0 to 1; None if not measured."""
    worker_seconds: Summary | None
    """Worker time, in seconds; None if no run has started."""
    energy_joules: Summary | None
    """Energy of the GPUs, in joules; None if not measured."""
    phases: Mapping[str, float]
    """Seconds in each phase, mean over the runs."""
    speedup: float | None
    """Speedup: mean time to target (training) of the baseline group divided by this group's.

    None if either has no mean, or the groups differ in data or target.
    """
    efficiency: float | None
    """Scaling efficiency: speedup divided by the ratio of the numbers of workers; 1 is perfect.

    None without a speedup, or for equal numbers of workers.
    """
    throughput_speedup: float | None
    """Throughput speedup: mean samples per second divided by the baseline group's.

    None if either has no mean, or the groups differ in data or target.
    """
    throughput_efficiency: float | None
    """Throughput efficiency: throughput speedup divided by the ratio of the numbers of workers.

    None without a throughput speedup, or for equal numbers of workers.
    """
    evidence: SignificanceTest | None
    """Significance test against the baseline group.

    None without another group, for a single run, or if the groups differ in data or target.
    """
    convergence: Convergence | None
    """Number of epochs compared with the benchmark's reference.

    None without a reference for this target, or if too few runs reached the target.
    """
    score: Score | None
    """Score of an official benchmark set; None for other runs."""
    doubt: str
    """Reason why an efficiency above 1.05 is not due to the number of workers; otherwise empty."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """Values of the swept options, by option; empty unless all compared runs sweep the same."""
    bytes_sent_per_step: Summary | None = None
    """Bytes that a rank sends per step to exchange gradients or weights; None if not recorded."""
    goodput_share: Summary | None = None
    """Goodput: share of worker time that advanced the final model, from 0 to 1; None if unknown."""
    largest_bucket: Bucket | None = None
    """Unproductive bucket with most worker time over all runs; None if unknown."""
    contention_share: float | None = None
    """CPU contention of each run's most affected rank, as a share of its time: mean over the runs.

    None if not measured.
    """
    contention_cost: float | None = None
    """Estimated share of the runs' time that CPU contention added; None if not measured."""
    contention_doubt: str = ""
    """Remark that CPU contention may explain the difference from the baseline; otherwise empty."""
    speedup_low: float | None = None
    """Lower end of the speedup's 95 % confidence interval (Welch's t of the logarithms).

    None if a group has a single run, or if a run missed the target.
    """
    speedup_high: float | None = None
    """Upper end of the speedup's 95 % confidence interval; None as for the lower end."""
    efficiency_low: float | None = None
    """Lower end of the efficiency's 95 % confidence interval; None as for the speedup."""
    efficiency_high: float | None = None
    """Upper end of the efficiency's 95 % confidence interval; None as for the speedup."""
    throughput_speedup_low: float | None = None
    """Lower end of the throughput speedup's 95 % confidence interval; None for a single run."""
    throughput_speedup_high: float | None = None
    """Upper end of the throughput speedup's 95 % confidence interval; None for a single run."""
    throughput_efficiency_low: float | None = None
    """Lower end of the throughput efficiency's 95 % confidence interval; None for a single run."""
    throughput_efficiency_high: float | None = None
    """Upper end of the throughput efficiency's 95 % confidence interval; None for a single run."""

    def is_known(self, percent: float) -> bool:
        """Check whether the mean time to target, or the throughput, is known to a percentage.

        Fewer than five runs are never enough, because a few runs may agree by chance.
        """
        summary = self.training_seconds_to_target or self.samples_per_second
        if summary is None or len(self.run_ids) < MIN_LOOKED_AT:
            return False
        mean, low, high = summary.mean, summary.mean_low, summary.mean_high
        if mean is None or low is None or high is None:
            return False
        return (high - low) / 2 <= percent / 100 * mean


@dataclass(frozen=True)
class Value(Record):
    """A value of a run attribute, and the runs that have it."""

    value: str
    run_ids: tuple[int, ...]


Breaks = Literal["yes", "no", "unknown", "scaling", "learning"]


@dataclass(frozen=True)
class Difference(Record):
    """A run attribute in which runs differ."""

    name: str
    """Name of the attribute, such as ``batch_size`` or ``cpu``."""
    breaks: Breaks
    """Effect of the difference on the comparison:

    - ``yes``: runs that differ in the attribute cannot be compared
    - ``no``: the difference has no effect
    - ``unknown``: a run does not report the attribute
    - ``scaling``: the workers had unequal resources, such as cores, so speedup and efficiency are
      not due to the number of workers alone
    - ``learning``: the attribute may affect convergence, as a learning rate does
    """
    values: tuple[Value, ...]
    """Values of the attribute, with the runs that have them."""
    text: str
    """Summary in words."""


Verdict = Literal["yes", "scaling", "disturbed", "no", "unknown"]
"""Whether runs can be compared.

``scaling``: yes, but not by their number of workers. ``disturbed``: yes, but not by their times.
"""


@dataclass(frozen=True)
class Fastest(Record):
    """The group with the shortest mean time to target (training), or else the highest throughput.

    CPU contention may explain its lead: ``disturbed`` of the findings names such runs.
    """

    group: int
    """Position of the fastest group in ``groups``, from 0."""
    slowest: int
    """Position of the slowest group in ``groups``, from 0."""
    times_faster: float
    """Speedup of the fastest group over the slowest one."""
    measure: Literal["training_seconds_to_target", "samples_per_second"] = (
        "training_seconds_to_target"
    )
    """Field of the groups by which they are compared: the throughput if no group has a time."""
    p: float | None = None
    """P-value of the difference from the slowest group; None for a single run.

    Corrected by Bonferroni's method for all pairs of groups, because results chose the pair.
    """
    can_tell: bool = True
    """Whether the groups have enough runs for any difference to be significant."""
    second: int | None = None
    """Position of the second fastest group; None for two groups."""
    second_p: float | None = None
    """P-value of the difference from the second group, corrected likewise; None if unknown."""


@dataclass(frozen=True)
class Findings(Record):
    """The findings of a comparison: whether it is fair, and how the runs differ, in sentences."""

    verdict: Verdict = "yes"
    """Whether the runs can be compared.

    ``scaling``: yes, but not by their number of workers. ``disturbed``: yes, but not by times.
    """
    sentence: str = ""
    """Verdict with its explanation, as a heading above ``reasons``; empty for a single run."""
    title: str = ""
    """Verdict without its reasons, as a title."""
    why: str = ""
    """Explanation of the verdict, as a subtitle."""
    reasons: tuple[str, ...] = ()
    """Reasons why the runs cannot be compared, why that is unknown, or why speedups mislead."""
    learning: tuple[str, ...] = ()
    """Differences that may affect convergence, such as another learning rate."""
    learned_by: str = ""
    """Sentence that names the differences in ``learning``; empty without differences."""
    differences: tuple[str, ...] = ()
    """Differences without an effect on convergence, such as another processor model."""
    rule_violations: tuple[str, ...] = ()
    """Rule violations of runs in the closed division."""
    disturbed: tuple[str, ...] = ()
    """Runs with a disturbed rank, with the cause."""
    notes: tuple[str, ...] = ()
    """Notes on benchmark sets, on scores, and on the significance of differences."""
    clock_faults: tuple[str, ...] = ()
    """Runs whose clocks were wrong."""
    fastest: Fastest | None = None
    """Fastest group.

    None if fewer than two groups have a figure, if data or targets differ, or if the runs cannot
    be compared.
    """


@dataclass(frozen=True)
class Failures(Record):
    """The cost of failures for a group of runs, from the first to the last step of each run."""

    group: int
    """Position of the group in ``groups``, from 0."""
    failures: int
    """Number of restarts of the group's runs, by MLBench or torchrun."""
    injected: int
    """Number of injected faults, including those without a restart."""
    between_seconds: float | None
    """Mean time between failures, in seconds; None without a failure."""
    restart_seconds: float | None
    """Mean time from a failure until training resumes, in seconds; None without a failure.

    The time for repeating discarded steps is left out.
    """
    checkpoint_seconds: float | None
    """Mean time that a checkpoint costs, in seconds; None without recorded checkpoints."""
    interval_seconds: float | None
    """Mean training time between two checkpoints, in seconds; None without recorded checkpoints."""
    kept: Summary | None
    """Share of the time that was not lost to failures and checkpoints, from 0 to 1."""
    expected: float | None
    """Expected share by Daly's formula from these costs, from 0 to 1.

    None if ranks were stopped, slowed or disconnected, which the formula does not model.
    """
    best_interval_seconds: float | None
    """Optimal checkpoint interval by Daly's formula, in seconds.

    None without a failure, or without recorded checkpoints.
    """
    text: str = ""
    """Remark that no planned fault fell within the runs; otherwise empty."""


@dataclass(frozen=True)
class Comparison(Record):
    """A comparison of several runs."""

    comparable: Literal["yes", "no", "unknown"]
    """Whether the runs can be compared; ``unknown`` if a run does not report a needed attribute."""
    differences: tuple[Difference, ...]
    """Run attributes that differ; those that prevent a comparison come first."""
    groups: tuple[Group, ...]
    """Groups of equal runs, ordered by swept values, then by number of workers."""
    results: tuple[Result, ...]
    """Results of the runs, in the requested order."""
    sets: tuple[str, ...] = ()
    """Progress of each benchmark set that the runs belong to, a sentence each."""
    sweep: Sweep | None = None
    """Layout of the sweep.

    None unless all runs sweep the same options and have at least two different values.
    """
    frontier: Frontier | None = None
    """Fastest algorithm by bandwidth; None unless bandwidth and the algorithm are swept."""
    caution: str = ""
    """Warning that groups have too few runs for any significant difference; otherwise empty."""
    findings: Findings = Findings()
    """Findings of the comparison, in sentences."""
    failures: tuple[Failures, ...] = ()
    """Cost of failures, for each group whose runs had failures or a fault schedule."""
