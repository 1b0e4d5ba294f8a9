"""What it costs that ranks come late to the exchanges in which the others wait for them. Pure.

After Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI
2025): put a typical rank's time in place of each rank's, step by step, and compare.

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
from itertools import pairwise
from math import exp, isfinite, lgamma, log, log1p
from types import MappingProxyType

from mlbench.contract import names
from mlbench.contract.names import Bucket
from mlbench.contract.results import LateRank, Stragglers
from mlbench.evaluation.exchanges import Exchange, exchanges_of, outside
from mlbench.evaluation.inputs import Column, Columns, finite_by_rank
from mlbench.evaluation.timeline import Dates

_COMMUNICATION = names.phase_metric("communication")
_PARTS: Mapping[Bucket, str] = {
    "compute": "computing",
    "data": "loading data",
    "checkpoint": "saving checkpoints",
}
_METRICS = (
    *(names.TRAIN_SECONDS, _COMMUNICATION, names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *(names.phase_metric("data"), names.phase_metric("checkpoint")),
)
# A prediction is right to 5 %: less is no gain that can be promised.
_WORTH_A_WORD, _WORTH_A_WORD_IN_TURNS = 1.05, 1.10
# Neighbouring steps depend on each other, so the test compares blocks of them. Blocks of healthy
# runs depend on each other as well, so it is stricter than the usual 5 %.
_MOST_BLOCKS, _SIGNIFICANT = 40, 0.001
# A rank that waited for a core for most of its delay is not slow by itself.
_EXPLAINED = 0.8

# Ranks record their totals about once a second.
_SPAN_US = 1_000_000

_Totals = Mapping[str, Mapping[str, Column]]


def stragglers_of(
    series: Columns,
    dates: Dates,
    waited: Mapping[int, float] = MappingProxyType({}),
    stopped: Iterable[tuple[int, int]] = (),
) -> Stragglers | None:
    """Return what it cost that ranks were late, from the communication of all.

    Args:
        series: the series of the final model.
        dates: the dates of the run.
        waited: the seconds for which other programs held the core of each rank.
        stopped: spans in which ranks were stopped, in microseconds. Their steps do not count.

    None where one trains alone, or where not all record their communication and training time.
    """
    totals: dict[str, dict[str, Column]] = {}
    series = dates.placed(series)
    for metric in _METRICS:
        for rank, column in finite_by_rank(series, metric).items():
            if rank.isdecimal():
                totals.setdefault(rank, {})[metric] = column
    if any(not {names.TRAIN_SECONDS, _COMMUNICATION} <= {*of_rank} for of_rank in totals.values()):
        return None
    exchanges = outside(exchanges_of(totals, _SPAN_US), stopped)
    if not exchanges:
        return None
    return _cost(exchanges, totals, waited)


def _cost(
    exchanges: Sequence[Exchange], totals: _Totals, waited: Mapping[int, float]
) -> Stragglers | None:
    """Compare the steps as they were with those of typical ranks in place of all, or of one."""
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
        LateRank(
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

    def beats_chance(times: int, places: int) -> bool:
        return _beats_chance(times, len(blocks), places, len(ranks))

    gaining = [rank for rank in by_rank if rank.times_as_fast >= _WORTH_A_WORD]
    named = next((r for r in gaining if beats_chance(times_last[str(r.rank)], 1)), None)
    above = len(ranks) - 1 - middle
    often = [rank for rank in ranks if beats_chance(times_late[rank], above)]
    if named is not None:
        text = _sentence(named, waited.get(named.rank, 0.0))
        if speed >= _WORTH_A_WORD * named.times_as_fast:
            text += f"; with no rank late {speed:.2f} times as fast"
    elif len(often) > 1 and speed >= _WORTH_A_WORD:
        text = f"ranks {', '.join(often)} were late; with no rank late {speed:.2f} times as fast"
    elif trained / (trained - long) >= _WORTH_A_WORD_IN_TURNS:
        text = (
            f"ranks were late in turns{_while_contended(saved, sum(waited.values()) / len(ranks))}"
        )
        text += f"; with no rank late {speed:.2f} times as fast"
    else:
        text = ""
    return Stragglers(speed, tuple(by_rank), text, named.rank if named else None)


def _ranked(seconds: Mapping[str, float]) -> list[str]:
    """Return the ranks from the one that communicated longest, which came first, to the last."""
    return sorted(seconds, key=seconds.__getitem__, reverse=True)


def _blocks(exchanges: Sequence[Exchange]) -> Iterator[list[str]]:
    """Yield the order of the ranks in blocks of consecutive steps."""
    count = min(len(exchanges), _MOST_BLOCKS)
    edges = [i * len(exchanges) // count for i in range(count + 1)]
    for first, end in pairwise(edges):
        seconds = Counter[str]()
        for exchange in exchanges[first:end]:
            seconds.update(exchange.seconds)
        yield _ranked(seconds)


def _parts(totals: _Totals) -> Mapping[str, Mapping[Bucket, float]]:
    """Return by rank in which part of its own work it took longer than the median rank: shares."""
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


def _sentence(worst: LateRank, waited: float) -> str:
    """Say how late a rank was, why, and how much faster the run would be without it."""
    cause = _while_contended(worst.seconds, waited)
    cause = cause or f", mostly in {_PARTS[max(_PARTS, key=lambda part: worst.parts[part])]}"
    late = f"rank {worst.rank} was {worst.seconds:,.1f} s late{cause}"
    return f"{late}; without that {worst.times_as_fast:.2f} times as fast"


def _while_contended(late: float, waited: float) -> str:
    """Say that CPU contention explains a delay; empty where it does not."""
    if waited < _EXPLAINED * late:
        return ""
    return f", while other programs held the cores for {waited:,.1f} s (CPU contention)"
