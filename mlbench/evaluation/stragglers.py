"""Causes of slow ranks: stragglers in the exchanges between ranks, and CPU contention.

Ranks end an exchange together. The rank that communicates least in a step was the last to come, and
the additional communication of the others is waiting. A tracker records the communication of single
steps: the first 500 after the warm-up, then ever fewer, the same steps on all ranks. Recordings of
earlier versions contain only totals, about one a second and at other times on each rank. There,
spans of some seconds take the place of steps.

The cost of stragglers follows Lin et al.: Understanding Stragglers in Large Model Training Using
What-if Analysis (OSDI 2025). Replace each rank's time by that of a typical rank, step by step, and
compare.

- A step ends with the exchange, for all ranks at once. So a rank is later than another one by as
  much as it communicates less than that one.
- The rank whose own work is the lower median of the step is the typical one: of two ranks, the
  faster one.

A rank is named only if it was last more often than chance allows, and if the run would be at
least 5 % faster without its delay. Otherwise noise would name a rank of every healthy run. Ranks
that are late in turns are mentioned if delays of more than half a step cost at least 10 %: the
short delays of healthy steps add up to as much, and nobody can do anything about them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, exp, isfinite, lgamma, log, log1p
from types import MappingProxyType

from mlbench.contract import names
from mlbench.contract.comparisons import Group
from mlbench.contract.figures import percent
from mlbench.contract.humanize import count
from mlbench.contract.names import DISTURBED_SHARE, Bucket
from mlbench.contract.records import Interference
from mlbench.contract.results import RankInterference, Result, Straggler, Stragglers
from mlbench.contract.sampled_steps import steps_per_sample
from mlbench.evaluation.inputs import Column, Columns, RankRow, finite_of_ranks
from mlbench.evaluation.statistics import mean
from mlbench.evaluation.timeline import ClockCorrection

# --- Exchanges ---

_COMMUNICATION = names.phase_metric("communication")
# Limit on the values of all ranks: more take long to compare, and do not improve the result.
_MAX_VALUES = 100_000

Recorded = Mapping[str, Mapping[str, Column]]
"""Columns of each rank by metric, with times in the run's time."""


@dataclass(frozen=True)
class TimedExchange:
    """Communication of the ranks in a step, or in a span of several steps."""

    at_us: int
    """End of the step or span on the first rank, in microseconds of the run's time."""
    steps: float
    """Number of steps, or of spans, that the exchange represents; the sum is the whole training."""
    seconds: Mapping[str, float]
    """Seconds of communication by rank, for each step that the exchange represents."""

    @cached_property
    def least(self) -> float:
        """Communication of the rank that came last, in seconds."""
        return min(self.seconds.values())


def exchanges_of(recorded: Recorded, span_us: int) -> list[TimedExchange]:
    """Return the exchanges of at least two ranks in order; empty if one recorded none.

    ``span_us`` is the length of spans in recordings that contain only totals.
    """
    if len(recorded) < 2:
        return []
    if all(names.SAMPLED_STEP in totals for totals in recorded.values()):
        return _sampled(recorded)
    if all({names.TRAIN_SECONDS, _COMMUNICATION} <= totals.keys() for totals in recorded.values()):
        return _spans(recorded, span_us)
    return []


def outside(
    exchanges: Sequence[TimedExchange], spans: Iterable[tuple[int, int]]
) -> list[TimedExchange]:
    """Return the exchanges that no span of time touches; ``spans`` are in microseconds."""
    excluded = list(spans)
    ends_us = [exchange.at_us for exchange in exchanges]
    return [
        exchange
        for before_us, exchange in zip([0, *ends_us], exchanges, strict=False)
        if not any(begin < exchange.at_us and end > before_us for begin, end in excluded)
    ]


def _sampled(recorded: Recorded) -> list[TimedExchange]:
    """Return the steps that all ranks recorded."""
    samples: dict[str, dict[int, tuple[int, float]]] = {}
    for rank, totals in recorded.items():
        steps = totals[names.SAMPLED_STEP]
        seconds = totals.get(names.SAMPLED_COMMUNICATION, Column([], []))
        by_time = dict(zip(seconds.times_us, seconds.values, strict=True))
        # Only the last repetition of a step counts.
        samples[rank] = {
            round(number): (time_us, by_time[time_us])
            for time_us, number in zip(steps.times_us, steps.values, strict=True)
            if time_us in by_time
        }
    first = next(iter(samples.values()))
    common = sorted(set(first).intersection(*samples.values()))
    common = common[:: ceil(len(common) * len(recorded) / _MAX_VALUES) or 1]
    counted = sum(map(steps_per_sample, common))
    return [
        TimedExchange(
            first[number][0],
            steps_per_sample(number) * common[-1] / counted,
            {rank: of_rank[number][1] for rank, of_rank in samples.items()},
        )
        for number in common
    ]


def _spans(recorded: Recorded, span_us: int) -> list[TimedExchange]:
    """Return spans of at least this length while all ranks trained, from the totals."""
    clocks = [totals[names.TRAIN_SECONDS] for totals in recorded.values()]
    began_us = max(clock.times_us[0] for clock in clocks)
    ended_us = max(began_us, min(clock.times_us[-1] for clock in clocks))
    count = max(1, min(_MAX_VALUES // len(recorded), (ended_us - began_us) // span_us))
    edges = [began_us + (ended_us - began_us) * i // count for i in range(count + 1)]
    covered = clocks[0].at(ended_us) - clocks[0].at(began_us)
    spans = clocks[0].values[-1] / covered if covered > 0 else 1.0
    spent: dict[str, list[float]] = {}
    for rank, totals in recorded.items():
        column, start_us = totals[_COMMUNICATION], totals[names.TRAIN_SECONDS].times_us[0]
        if column.times_us[0] > start_us:  # A phase is not recorded before it is entered.
            column = Column([start_us, *column.times_us], [0.0, *column.values])
        spent[rank] = [
            max(0.0, column.at(end) - column.at(begin)) for begin, end in pairwise(edges)
        ]
    return [
        TimedExchange(edges[i + 1], spans, {rank: seconds[i] for rank, seconds in spent.items()})
        for i in range(count)
    ]


# --- Stragglers ---

_PARTS: Mapping[Bucket, str] = {
    "compute": "computing",
    "data": "loading data",
    "checkpoint": "saving checkpoints",
}
_METRICS = (
    *(names.TRAIN_SECONDS, _COMMUNICATION, names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *(names.phase_metric("data"), names.phase_metric("checkpoint")),
)
# Predictions are correct to 5 %, so a smaller gain is not mentioned.
_MIN_SPEEDUP, _MIN_SPEEDUP_IN_TURNS = 1.05, 1.10
# Neighbouring steps depend on each other, so the test compares blocks of them. Blocks of healthy
# runs depend on each other as well, so it is stricter than the usual 5 %.
_MAX_BLOCKS, _SIGNIFICANT = 40, 0.001


def stragglers_of(
    series: Columns,
    dates: ClockCorrection,
    waited: Mapping[int, float] = MappingProxyType({}),
    stopped: Iterable[tuple[int, int]] = (),
) -> Stragglers | None:
    """Return the cost of late ranks, from the communication of all.

    Args:
        series: the series of the final model.
        dates: the begins of the run's attempts, and the errors of its clocks.
        waited: the seconds for which other programs held the core of each rank.
        stopped: spans in which ranks were stopped, in microseconds. Their steps do not count.

    None for a single rank, or if not all record their communication and training time.
    """
    of_ranks = finite_of_ranks(dates.placed(series), _METRICS)
    totals = {rank: columns for rank, columns in of_ranks.items() if rank.isdecimal()}
    if any(not {names.TRAIN_SECONDS, _COMMUNICATION} <= {*of_rank} for of_rank in totals.values()):
        return None
    # Ranks record their totals about once a second, so shorter spans would be empty.
    exchanges = outside(exchanges_of(totals, span_us=1_000_000), stopped)
    if not exchanges:
        return None
    return _cost(exchanges, totals, waited)


def _cost(
    exchanges: Sequence[TimedExchange], totals: Recorded, waited: Mapping[int, float]
) -> Stragglers | None:
    """Compare the steps with those in which all ranks, or one, are replaced by typical ranks."""
    ranks = list(exchanges[0].seconds)
    middle = (len(ranks) - 1) // 2
    saved = 0.0
    delays: list[tuple[float, float]] = []
    saved_alone, late = dict.fromkeys(ranks, 0.0), dict.fromkeys(ranks, 0.0)
    for exchange in exchanges:
        seconds, steps = exchange.seconds, exchange.steps
        ranked = _ranked(seconds)
        last, typical = ranked[-1], seconds[ranked[middle]]
        delays.append((steps, typical - seconds[last]))
        saved += steps * delays[-1][1]
        saved_alone[last] += steps * (seconds[ranked[-2]] - seconds[last])
        for rank in ranked[middle + 1 :]:
            late[rank] += steps * (typical - seconds[rank])
    trained = max(of_rank[names.TRAIN_SECONDS].values[-1] for of_rank in totals.values())
    if not (isfinite(trained) and saved < trained):
        return None
    half_a_step = (trained - saved) / sum(steps for steps, _ in delays) / 2
    long = sum(steps * delay for steps, delay in delays if delay > half_a_step)
    parts = _parts(totals)
    by_rank = [
        Straggler(
            int(rank),
            late[rank],
            {part: late[rank] * share for part, share in parts[rank].items()},
            trained / (trained - saved_alone[rank]),
        )
        for rank in ranks
    ]
    by_rank.sort(key=lambda rank: -rank.seconds)
    speed = trained / (trained - saved)

    blocks = list(_blocks(exchanges))
    times_last = Counter(block[-1] for block in blocks)
    times_late = Counter(rank for block in blocks for rank in block[middle + 1 :])
    beats_chance = partial(_beats_chance, count=len(blocks), ranks=len(ranks))
    gaining = [rank for rank in by_rank if rank.speedup_without >= _MIN_SPEEDUP]
    named = next((r for r in gaining if beats_chance(times_last[str(r.rank)], places=1)), None)
    above = len(ranks) - 1 - middle
    often = [rank for rank in ranks if beats_chance(times_late[rank], places=above)]
    if named is not None:
        cause = _while_contended(named.seconds, waited.get(named.rank, 0.0))
        cause = cause or f", mostly in {_PARTS[max(_PARTS, key=lambda part: named.parts[part])]}"
        text = f"rank {named.rank} was {named.seconds:,.1f} s late{cause}"
        text += f"; {named.speedup_without:.2f}x speedup if on time"
        if speed >= _MIN_SPEEDUP * named.speedup_without:
            text += f"; {speed:.2f}x speedup if none was late"
    elif len(often) > 1 and speed >= _MIN_SPEEDUP:
        text = f"ranks {', '.join(often)} were late; {speed:.2f}x speedup if none was late"
    elif trained / (trained - long) >= _MIN_SPEEDUP_IN_TURNS:
        cause = _while_contended(saved, sum(waited.values()) / len(ranks))
        text = f"ranks were late in turns{cause}; {speed:.2f}x speedup if none was late"
    else:
        text = ""
    return Stragglers(speed, tuple(by_rank), text, named.rank if named else None)


def _ranked(seconds: Mapping[str, float]) -> list[str]:
    """Return the ranks in the order in which they came: the first communicates longest."""
    return sorted(seconds, key=seconds.__getitem__, reverse=True)


def _blocks(exchanges: Sequence[TimedExchange]) -> Iterator[list[str]]:
    """Yield the order of the ranks in blocks of consecutive steps."""
    count = min(len(exchanges), _MAX_BLOCKS)
    edges = [i * len(exchanges) // count for i in range(count + 1)]
    for first, end in pairwise(edges):
        seconds = Counter[str]()
        for exchange in exchanges[first:end]:
            seconds.update(exchange.seconds)
        yield _ranked(seconds)


def _parts(totals: Recorded) -> Mapping[str, Mapping[Bucket, float]]:
    """Return the shares of each rank's own work in which it exceeded the median rank."""
    own: dict[str, dict[Bucket, float]] = {}
    for rank, columns in totals.items():
        last = {metric: column.values[-1] for metric, column in columns.items()}
        data, saving = (
            last.get(names.phase_metric(phase), 0.0) for phase in ("data", "checkpoint")
        )
        computed = last[names.TRAIN_SECONDS] - last[_COMMUNICATION] - data - saving
        own[rank] = {"compute": computed, "data": data, "checkpoint": saving}
    middle = (len(own) - 1) // 2
    typical = {part: sorted(parts[part] for parts in own.values())[middle] for part in _PARTS}
    shares: dict[str, Mapping[Bucket, float]] = {}
    for rank, parts in own.items():
        excess = {part: max(0.0, seconds - typical[part]) for part, seconds in parts.items()}
        total = sum(excess.values())
        excess = excess if total else {**excess, "compute": 1.0}
        shares[rank] = {part: seconds / (total or 1.0) for part, seconds in excess.items()}
    return shares


def _beats_chance(times: int, count: int, places: int, ranks: int) -> bool:
    """Test whether a rank was in the last places more often than a rank by chance.

    The one-sided binomial test, corrected for the choice of the worst of all ranks.
    """
    chance = places / ranks
    tail = sum(
        exp(
            lgamma(count + 1)
            - lgamma(k + 1)
            - lgamma(count - k + 1)
            + k * log(chance)
            + (count - k) * log1p(-chance)
        )
        for k in range(times, count + 1)
    )
    return tail * ranks < _SIGNIFICANT


def is_contended(late: float, waited: float) -> bool:
    """Check whether the seconds for which a core was held explain most of a rank's delay."""
    return waited >= 0.8 * late


def _while_contended(late: float, waited: float) -> str:
    """Return the clause on CPU contention if it explains most of a delay; else empty."""
    if not is_contended(late, waited):
        return ""
    return f", while other programs held the cores for {waited:,.1f} s (CPU contention)"


# --- CPU contention of a rank ---


def interferences(ranks: Sequence[RankRow]) -> tuple[RankInterference, ...]:
    """Return the CPU contention of each rank of all attempts for which it was measured."""
    restarted = len({rank.attempt for rank in ranks}) > 1
    contention = []
    for rank in sorted(ranks, key=lambda rank: (rank.attempt, rank.rank)):
        measured = rank.interference
        if measured is None:
            continue
        stolen = measured.stolen_seconds
        name = rank.worker if rank.processes else f"rank {rank.rank}"
        name += f", attempt {rank.attempt}," if restarted else ""
        contention.append(
            RankInterference(
                rank=rank.rank,
                attempt=rank.attempt,
                disturbed=is_disturbed(measured),
                contention_share=measured.waiting_seconds / measured.seconds,
                stolen_share=None if stolen is None else stolen / measured.seconds,
                text=f"{name} {_describe(measured)}",
                measured=measured,
            )
        )
    return tuple(contention)


def is_disturbed(measured: Interference) -> bool:
    """Check if a rank was profiled, was stopped, or waited too long for other programs."""
    lost = max(measured.waiting_seconds, measured.stolen_seconds or 0.0)
    is_slowed = lost / measured.seconds > DISTURBED_SHARE
    return is_slowed or bool(measured.profiled or measured.stopped)


def _describe(measured: Interference) -> str:
    """Return ``had CPU contention for 41 % of the time; others used 1.1 of 2 cores (top: …)``."""
    seconds = measured.seconds
    text = f"had CPU contention for {percent(measured.waiting_seconds / seconds, 0)} of the time"
    by_stack = (measured.stack_waiting_seconds or 0.0) / seconds
    if by_stack >= 0.01:
        text += f", {percent(by_stack, 0)} more for MLBench's own processes"
    if measured.self_contention_seconds > DISTURBED_SHARE * seconds:
        text += f", {percent(measured.self_contention_seconds / seconds, 0)} more by its own doing"
    if measured.others_core_seconds is not None:
        used = measured.others_core_seconds / seconds
        text += f"; others used {used:.1f} of {count(measured.cores, 'core')}"
    top = {name: used / seconds for name, used in measured.top.items()}
    # Programs that used less than 0.05 cores are left out.
    named = [f"{name} {used:.1f}" for name, used in top.items() if used >= 0.05]
    if named:
        text += f" (top: {', '.join(named)})"
    if measured.stolen_seconds and measured.stolen_seconds > DISTURBED_SHARE * seconds:
        text += (
            f"; its cores were stolen {percent(measured.stolen_seconds / seconds, 0)} of the time"
        )
    blocked = measured.node_pressure_seconds.get("io", 0.0)
    # The kernel does not tell which programs waited, and the stack itself does. So this is
    # mentioned, but does not make the run disturbed.
    if blocked > 0.5 * seconds:
        text += f"; on its machine, programs waited for disks {percent(blocked / seconds, 0)} of it"
    if measured.profiled:
        text += f"; it was profiled for {sum(end - at for at, end in measured.profiled):.1f} s"
    if measured.stopped:
        text += f"; it was stopped for {sum(end - at for at, end in measured.stopped):.1f} s"
    return text


# --- CPU contention of a group ---

COST = 1.3
"""Relative slowdown of a run per share of its time that a rank waited for a core.

It is the slope over 61 pairs of equal runs on two cores, with and without contention.
"""


def share_of(runs: Sequence[Result]) -> float | None:
    """Return the mean over runs of the CPU contention of the rank with the highest.

    It includes contention by MLBench's own processes. None if no run measured it.
    """
    measured = [[rank.measured.contention_share for rank in run.interferences] for run in runs]
    shares = [max(ranks) for ranks in measured if ranks]
    return mean(shares) if shares else None


def doubt_of(group: Group, base: Group) -> str:
    """Say that contention costs one of two groups more than they differ by; empty if it does not.

    Differences in cost below 1 % do not count.
    """
    faster = group.evidence.times_faster if group.evidence else None
    base_cost, cost = base.contention_cost, group.contention_cost
    if faster is None or base_cost is None or cost is None:
        return ""
    difference = abs(faster - 1)
    if abs(cost - base_cost) < max(0.01, difference):
        return ""
    return (
        f"{base.label} and {group.label} differ by {percent(difference)}, "
        f"and CPU contention cost them about {percent(base_cost)} and {percent(cost)}"
    )
