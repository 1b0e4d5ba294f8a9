"""What it costs that ranks come late to the exchanges in which the others wait for them. Pure.

After Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI
2025): put a typical rank's time in place of each rank's, simulate, and compare. Simulated are the
spans between two totals of the first rank, a step each, or a second of shorter steps:

- A span takes the longest own work of a rank, and the shortest communication: the last rank waits
  for nobody, and how late it is shows in the communication of the others alone.
- Typical is the rank whose own work is the lower median of the span: of two ranks, the faster one.
- Ranks that are late in turns within a span cost more than is found.

A rank is named only if it was last in more spans than chance allows, and if the run would be at
least 5 % faster without its delay. Otherwise noise would name a rank of every healthy run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, isfinite, lgamma, log, log1p
from types import MappingProxyType

from mlbench import names
from mlbench.evaluation.columns import Column, Columns, finite_by_rank
from mlbench.evaluation.dates import Dates
from mlbench.names import Bucket
from mlbench.results import LateRank, Stragglers

_COMMUNICATION = names.phase_metric("communication")
_PHASES = (_COMMUNICATION, names.phase_metric("data"), names.phase_metric("checkpoint"))
_PARTS: Mapping[Bucket, str] = {
    "compute": "computing",
    "data": "loading data",
    "checkpoint": "saving checkpoints",
}
# A prediction is right to 5 %: less is no gain that can be promised.
_WORTH_A_WORD = 1.05
_MOST_SPANS_OF_RANKS = 50_000
# Healthy runs have spans that depend on each other, so the test is stricter than the usual 5 %.
_SIGNIFICANT = 0.001
# A rank that waited for a core for most of its delay is not slow by itself.
_EXPLAINED = 0.8
# Ranks that end well record their last totals within this time of each other.
_TOGETHER_US = 500_000


@dataclass(frozen=True)
class _Work:
    """What a rank did in a span, in seconds: its own work, which has parts, and communication."""

    rank: int
    own: float
    parts: Mapping[Bucket, float]
    communication: float


def stragglers_of(
    series: Columns, dates: Dates, waited: Mapping[int, float] = MappingProxyType({})
) -> Stragglers | None:
    """Return what it cost that ranks were late, by the totals of all.

    ``waited`` are the seconds for which other programs held the core of each rank.

    None where one trains alone, or where not all record their communication and training time.
    """
    totals: dict[str, dict[str, Column]] = {}
    for metric in (names.TRAIN_SECONDS, *_PHASES):
        for rank, column in finite_by_rank(series, metric).items():
            if rank.isdecimal():
                placed = Column(dates.place(rank, column.times_us), column.values)
                totals.setdefault(rank, {})[metric] = placed
    recorded = [its for its in totals.values() if {names.TRAIN_SECONDS, _COMMUNICATION} <= {*its}]
    if len(totals) < 2 or len(recorded) < len(totals):  # noqa: PLR2004 - one has no others
        return None
    exchanged = [its[_COMMUNICATION] for its in recorded]
    began_us = max(its[names.TRAIN_SECONDS].times_us[0] for its in recorded)
    ended_us = max(began_us, _common_end(exchanged))
    inside = [at_us for at_us in exchanged[0].times_us if began_us < at_us < ended_us]
    every = ceil(len(inside) * len(totals) / _MOST_SPANS_OF_RANKS) or 1
    edges_us = [began_us, *inside[::every], ended_us]
    of_ranks = [_works(int(rank), of_rank, edges_us) for rank, of_rank in totals.items()]
    return _cost(list(zip(*of_ranks, strict=True)), waited)


def _common_end(totals: Sequence[Column]) -> int:
    """Return up to when the totals of all ranks can be compared.

    A rank that died recorded nothing afterwards, while the others waited for it. The totals that
    they recorded later have that wait in them, so only earlier ones count.
    """
    end_us = min(column.times_us[-1] for column in totals)
    ends = [end_us]
    for column in totals:
        following = column.first_from(end_us)
        if following and column.times_us[following] - end_us > _TOGETHER_US:
            ends.append(column.times_us[following - 1])
    return min(ends)


def _works(rank: int, totals: Mapping[str, Column], edges_us: Sequence[int]) -> Iterator[_Work]:
    """Yield what a rank did in each span between two edges."""
    start_us = totals[names.TRAIN_SECONDS].times_us[0]

    def spent(metric: str) -> list[float]:
        column = totals.get(metric, Column([start_us], [0.0]))
        if column.times_us[0] > start_us:  # a phase is not recorded before it is entered
            column = Column([start_us, *column.times_us], [0.0, *column.values])
        at_edges = [column.at(at_us) for at_us in edges_us]
        return [max(0.0, end - begin) for begin, end in pairwise(at_edges)]

    for trained, *phases in zip(*map(spent, (names.TRAIN_SECONDS, *_PHASES)), strict=True):
        own = max(0.0, trained - phases[0])
        data = min(phases[1], own)
        saving = min(phases[2], own - data)
        parts = zip(_PARTS, (own - data - saving, data, saving), strict=True)
        yield _Work(rank, own, dict(parts), phases[0])


def _cost(spans: Sequence[Sequence[_Work]], waited: Mapping[int, float]) -> Stragglers | None:
    """Simulate the spans as they were, and with typical ranks in place of all, or of one."""
    seconds = saved = 0.0
    saved_alone = {work.rank: 0.0 for work in spans[0]}
    late = {rank: dict.fromkeys(_PARTS, 0.0) for rank in saved_alone}
    times_last, times_late = Counter[int](), Counter[int]()
    for works in spans:
        ranked = sorted(works, key=lambda work: work.own)
        middle, last = (len(ranked) - 1) // 2, ranked[-1]
        seconds += last.own + min(work.communication for work in works)
        saved += last.own - ranked[middle].own
        saved_alone[last.rank] += last.own - ranked[-2].own
        times_last[last.rank] += 1
        for work in ranked[middle + 1 :]:
            times_late[work.rank] += 1
            for part in _PARTS:
                late[work.rank][part] += work.parts[part] - ranked[middle].parts[part]
    if not (isfinite(seconds) and saved < seconds):
        return None
    speed = seconds / (seconds - saved)
    ranks = [
        LateRank(rank, sum(parts.values()), parts, seconds / (seconds - saved_alone[rank]))
        for rank, parts in late.items()
    ]
    ranks.sort(key=lambda rank: -rank.seconds)
    count, size = len(spans), len(ranks)
    gaining = [rank for rank in ranks if rank.times_as_fast >= _WORTH_A_WORD]
    named = next((r for r in gaining if _beats_chance(times_last[r.rank], count, 1, size)), None)
    if named is not None:
        text = _sentence(named, waited.get(named.rank, 0.0))
        return Stragglers(speed, tuple(ranks), text, named.rank)
    above = size - 1 - (size - 1) // 2
    often = [r.rank for r in ranks if _beats_chance(times_late[r.rank], count, above, size)]
    text = ""
    if len(often) > 1 and speed >= _WORTH_A_WORD:
        text = f"ranks {', '.join(map(str, sorted(often)))} were late; "
        text += f"with no rank late {speed:.2f} times as fast"
    return Stragglers(speed, tuple(ranks), text)


def _beats_chance(times: int, spans: int, places: int, ranks: int) -> bool:
    """Test whether a rank was in the last places more often than a rank by chance.

    The one-sided binomial test, corrected for the choice of the worst of all ranks.
    """
    chance = places / ranks
    tail = sum(
        exp(
            lgamma(spans + 1)
            - lgamma(k + 1)
            - lgamma(spans - k + 1)
            + k * log(chance)
            + (spans - k) * log1p(-chance)
        )
        for k in range(times, spans + 1)
    )
    return tail * ranks < _SIGNIFICANT


def _sentence(worst: LateRank, waited: float) -> str:
    """Say how late a rank was, why, and how much faster the run would be without it."""
    late = f"rank {worst.rank} was {worst.seconds:,.1f} s late"
    if waited >= _EXPLAINED * worst.seconds:
        cause = f"while other programs held its core for {waited:,.1f} s (CPU contention)"
    else:
        cause = f"mostly in {_PARTS[max(_PARTS, key=lambda part: worst.parts[part])]}"
    return f"{late}, {cause}; without that {worst.times_as_fast:.2f} times as fast"
