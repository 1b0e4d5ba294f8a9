"""Goodput of a run: every worker-second from its turn in the queue to its end.

The time of each worker is cut into buckets from the front to the back, in whole microseconds. No
time is cut twice, so buckets exclude each other and add up exactly. If two causes overlap, this
order decides:

- *Lost* is everything that a process did after the checkpoint from which the run resumed: its
  steps, evaluations and further checkpoints all had to be repeated.
- *Diverged* and *hung* are all time after the loss became NaN permanently, or after a hang began.
  The teardown of a process that ended successfully is *idle* as in any other run.
- *Stopped* is the time in which any rank was stopped, its machine slept, or an injected fault
  slowed or disconnected it: in synchronous training the other ranks wait for it. A stop counts
  whole. Another fault counts by the decrease of its rank's samples per second. CPU time over a
  quota is included.
- *Evaluation* takes precedence over communication: ranks that evaluate exchange scores, which does
  not train.
- *Waiting* is the communication of a rank in excess of the rank that communicates least in the same
  step. Ranks end an exchange together, so that rank came last, and the others waited for it. Only
  some steps of a long training are recorded, which represent all; earlier versions recorded spans.
- *CPU contention* is the time in which other programs held a rank's core, measured by the kernel.
  The kernel does not tell in which phase, so all phases but waiting lose the same share to it.
- *Compute* is all other training time: forward and backward pass, optimizer, metrics, a framework's
  step in one piece, and the time between phases. Code without timed phases only computes.
- *Paused* is the time between two epochs outside of all phases, while the training clock stops.
- After a rank has failed, the work of the others is useless. The time until the last of them has
  exited is *detection*, and the time from there to the next attempt is *restart*. New processes
  start in the same buckets as the first ones.
- *Unknown* is unrecorded time, such as the last second of a process that is stopped, or all time of
  a process that records no training time. It counts as unproductive.

A run in the queue holds no workers, so that time is not in the worker-seconds but in
``Goodput.queued_seconds``.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain, pairwise
from statistics import fmean
from typing import Literal

from mlbench.contract import names
from mlbench.contract.buckets import BEGINNING, PRODUCTIVE, WHOLE_STEPS
from mlbench.contract.names import ACTIVE_STATES, BUCKETS, Bucket
from mlbench.contract.records import Interference
from mlbench.contract.results import Branch, Breakdown, Goodput, RankGoodput
from mlbench.evaluation.inputs import Column, Columns, RankRow, RunRow
from mlbench.evaluation.stragglers import exchanges_of, outside
from mlbench.evaluation.timeline import (
    Key,
    ProcessLifetime,
    clock_correction_of,
    lifetimes_of,
    lineage_of,
    stops_of,
    whole_us,
)

_NEVER_US = 1 << 62
# The time breakdown over time evaluates the totals of each process at the edges of its bins.
_MIN_BINS, _MAX_CUTS = 50, 20_000
# Spans must not be shorter: ranks record their totals at different times, which would look like
# waiting.
_SPAN_US = 10_000_000

_Us = Counter[Bucket]

Useless = tuple[int, Literal["diverged", "hung"]]
"""A time in microseconds, and the bucket of all worker time from then on."""


_Parts = Callable[[int], Iterable[tuple[Bucket, float]]]
"""Function that returns the seconds of a span in each bucket until a time in microseconds."""


@dataclass(frozen=True)
class _Span:
    """Part of the time of a process: its buckets take their seconds while they fit, then a rest."""

    begin_us: int
    end_us: int
    rest: Bucket
    parts: _Parts

    def until(self, until_us: int) -> _Us:
        """Return the buckets of the time before ``until_us``, which add up to that time."""
        buckets, remaining_us = _Us(), until_us - self.begin_us
        for bucket, seconds in self.parts(until_us):
            us = min(remaining_us, whole_us(seconds))
            buckets[bucket] += us
            remaining_us -= us
        buckets[self.rest] += remaining_us
        return buckets

    def over(self, edges_us: Sequence[int]) -> list[tuple[int, _Us]]:
        """Return the number of each bin that the span overlaps, with the buckets of the overlap.

        The bins of a bucket add up to its total in the span, and the buckets of a bin to its time.
        """
        first = max(0, bisect_right(edges_us, self.begin_us) - 1)
        bins: list[tuple[int, _Us]] = []
        before = _Us()
        for number, edge_us in enumerate(edges_us[first + 1 :], first):
            after = self.until(min(edge_us, self.end_us))
            growth = _Us({bucket: after[bucket] - before[bucket] for bucket in after | before})
            # A phase is often recorded when it ends, so that its earlier time was in another bucket
            # until then: exchange it for time of this bin.
            for shrunk in [bucket for bucket, us in growth.items() if us < 0]:
                for _, earlier in reversed(bins):
                    for bucket in [bucket for bucket, us in growth.items() if us > 0]:
                        us = min(-growth[shrunk], earlier[shrunk], growth[bucket])
                        growth[shrunk] += us
                        earlier[shrunk] -= us
                        growth[bucket] -= us
                        earlier[bucket] += us
            bins.append((number, +growth))
            if edge_us >= self.end_us:
                break
            before = after
        return bins


@dataclass
class _Timeline:
    """Time of a process, from whose front spans are cut."""

    at_us: int
    buckets: _Us
    spans: list[_Span] = field(default_factory=list)
    restarts: int = 0
    """Number of restarts of the process by torchrun."""
    again_us: int = 0
    """Time that the restarted processes needed until they trained."""

    def until(self, end_us: int, rest: Bucket, parts: _Parts = lambda _: ()) -> None:
        """Cut off the time before ``end_us``: seconds of parts while they fit, then a rest."""
        if end_us > self.at_us:
            span = _Span(self.at_us, end_us, rest, parts)
            self.spans.append(span)
            self.buckets += span.until(end_us)
            self.at_us = end_us


@dataclass(frozen=True)
class _Attempt:
    """Time at which an attempt failed, None if it did not, and end of the last of its ranks."""

    failed_us: int | None
    over_us: int


def goodput_of(
    run: RunRow,
    ranks: Sequence[RankRow],
    ended_at: float,
    series: Columns,
    useless: Useless | None = None,
) -> Goodput | None:
    """Return the goodput of a run until its end or the present; None before its start.

    Args:
        run: the run, with the faults that were injected into it.
        ranks: the ranks of all its attempts.
        ended_at: the end of the run or the present time, in Unix seconds.
        series: the series that its result is computed from.
        useless: the time from which the run could not succeed, and the bucket of the time after it.
    """
    if run.started_at is None or not ranks:
        return None
    rows = list(_BucketAccounting(run, ranks, ended_at, series, useless).rows())
    total = sum((us for _, us in rows), _Us())
    by_rank = tuple(row for row, _ in rows)
    queued = total.pop("queued", 0) / len({row.rank for row in by_rank}) / 1e6
    recorded = any(total[bucket] for bucket in (*WHOLE_STEPS, "lost"))
    share, whole = (
        sum(total[bucket] for bucket in buckets) / total.total() if recorded else None
        for buckets in (PRODUCTIVE, WHOLE_STEPS)
    )
    return Goodput(share, _seconds(total), by_rank, whole, round(queued, 6))


def breakdown_of(
    run: RunRow,
    ranks: Sequence[RankRow],
    ended_at: float,
    series: Columns,
    bins: int,
    useless: Useless | None = None,
) -> Breakdown | None:
    """Return the time breakdown over time, in at most ``bins`` bins; None before the start.

    For the other arguments, see ``goodput_of``. Runs of very many ranks have fewer bins.
    """
    if run.started_at is None or not ranks:
        return None
    accounting = _BucketAccounting(run, ranks, ended_at, series, useless)
    # With the share of a worker that a process has.
    spans = [
        (span, 1 / len(processes))
        for _, processes in accounting.processes()
        for process in processes
        for span in process.spans
        if span.rest != "queued"
    ]
    started_us = round(run.started_at * 1e6)
    begin_us = min((span.begin_us for span, _ in spans), default=started_us)
    length_us = max(1, max((span.end_us for span, _ in spans), default=started_us) - begin_us)
    count = max(1, min(bins, max(_MIN_BINS, _MAX_CUTS // len(ranks)), length_us // 1000))
    edges_us = [begin_us + length_us * i // count for i in range(count + 1)]
    by_bucket: dict[Bucket, list[float]] = {}
    for span, share in spans:
        for number, buckets in span.over(edges_us):
            for bucket, us in buckets.items():
                by_bucket.setdefault(bucket, [0.0] * count)[number] += us * share / 1e6
    # Each restart that discarded steps has one branch: the longest of all ranks.
    begun_us = accounting.begun_us
    branches: dict[int, tuple[int, int]] = {}
    for from_us, until_us in chain.from_iterable(accounting.lineage.discarded.values()):
        restart = bisect_right(begun_us, until_us)
        first_us, last_us = branches.get(restart, (from_us, until_us))
        # A run that starts from scratch discards everything that came before.
        first_us = max(min(first_us, from_us), begun_us[0])
        branches[restart] = first_us, max(last_us, until_us)
    return Breakdown(
        begin_seconds=(begin_us - started_us) / 1e6,
        bin_seconds=length_us / count / 1e6,
        seconds={
            bucket: tuple(round(seconds, 6) for seconds in by_bucket[bucket])
            for bucket in BUCKETS
            if any(by_bucket.get(bucket, ()))
        },
        attempts=tuple((us - started_us) / 1e6 for us in begun_us),
        discarded=tuple(
            Branch((first_us - started_us) / 1e6, (last_us - started_us) / 1e6)
            for _, (first_us, last_us) in sorted(branches.items())
        ),
    )


def largest(runs: Iterable[Goodput]) -> Bucket | None:
    """Return the largest unproductive bucket over several runs; None if all are empty."""
    others = Counter[Bucket]()
    for run in runs:
        others.update({b: round(s * 1e6) for b, s in run.seconds.items() if b not in PRODUCTIVE})
    return max(others, key=lambda bucket: others[bucket], default=None)


def _seconds(us: _Us) -> dict[Bucket, float]:
    return {bucket: us[bucket] / 1e6 for bucket in BUCKETS if us[bucket] and bucket != "queued"}


class _BucketAccounting:
    def __init__(
        self,
        run: RunRow,
        ranks: Sequence[RankRow],
        ended_at: float,
        series: Columns,
        useless: Useless | None,
    ) -> None:
        self._run = run
        self._useless = useless or (_NEVER_US, "hung")
        self._ended_us = round(ended_at * 1e6)
        correction = clock_correction_of(ranks, run.started_at or 0.0, ended_at)
        corrected = correction.placed(series)
        self.begun_us = correction.begun_us
        self.lineage = lineage_of(corrected, correction.begun_us)
        self._lives = lifetimes_of(ranks, corrected)
        self._rows: dict[int, list[RankRow]] = {}
        attempts: dict[int, list[RankRow]] = {}
        for row in sorted(ranks, key=lambda row: (row.rank, row.attempt)):
            self._rows.setdefault(row.rank, []).append(row)
            attempts.setdefault(row.attempt, []).append(row)
        self._attempts: dict[int, _Attempt] = {}
        for attempt, rows in attempts.items():
            was_stopped = attempt == run.attempt and run.state == "STOPPED"
            failed = [self._ended(row) for row in rows if row.lost or row.exit_code]
            failed_us = None if was_stopped else min(failed, default=None)
            self._attempts[attempt] = _Attempt(failed_us, max(map(self._ended, rows)))
        self._stops = {
            attempt: stops_of(run, rows, self._lives) for attempt, rows in attempts.items()
        }
        self._waited = dict(self._waits())

    def _ended(self, row: RankRow) -> int:
        return self._ended_us if row.exited_at is None else whole_us(row.exited_at)

    def rows(self) -> Iterator[tuple[RankGoodput, _Us]]:
        """Yield the time of each worker in each attempt: the first begins when it was submitted."""
        for row, processes in self.processes():
            total = sum((process.buckets for process in processes), _Us())
            us = _Us({bucket: total_us // len(processes) for bucket, total_us in total.items()})
            # All processes have the same total and the same time in the queue, so the rest of the
            # division belongs to another bucket.
            most = max((b for b in BUCKETS if b != "queued"), key=us.__getitem__)
            us[most] += processes[0].buckets.total() - us.total()
            again_us = round(fmean(process.again_us for process in processes))
            restarts = processes[0].restarts
            yield RankGoodput(row.rank, row.attempt, _seconds(us), restarts, again_us / 1e6), us

    def processes(self) -> Iterator[tuple[RankRow, list[_Timeline]]]:
        """Yield each worker in each attempt with the time of its processes."""
        created_at = self._run.created_at or self._run.started_at or 0.0
        for rows in self._rows.values():
            assigned = [round(row.assigned_at * 1e6) for row in rows[1:]]
            ends = [round(created_at * 1e6), *assigned, self._ended_us]
            for row, (begin_us, end_us) in zip(rows, pairwise(ends), strict=True):
                yield row, [self._process(row, str(rank), begin_us, end_us) for rank in row.ranks]

    def _process(self, row: RankRow, rank: str, begin_us: int, end_us: int) -> _Timeline:
        attempt = self._attempts[row.attempt]
        timeline = _Timeline(begin_us, _Us())
        assigned_us, room_at = round(row.assigned_at * 1e6), self._run.room_at
        timeline.until(assigned_us if room_at is None else whole_us(room_at), "queued")
        timeline.until(assigned_us, "workers")
        lifetimes = [life for life in self._lives[rank] if life.key[0] == row.attempt]
        begun_us = []
        for life, following in zip(lifetimes, [*lifetimes[1:], None], strict=True):
            timeline.until(min(life.began_us, end_us), "restart" if life.key[1] else "start")
            if following is None:
                useful_us = min(self._ended(row), attempt.failed_us or end_us, end_us)
            else:  # torchrun does not report the time of a failure.
                last_us = life.last_us if life.has_clock else following.began_us
                useful_us = min(last_us, end_us)
            is_over = following is None and row.exit_code == 0
            self._life(timeline, life, useful_us, row.interference, is_over=is_over)
            begun_us.append(sum(timeline.buckets[bucket] for bucket in BEGINNING))
        timeline.restarts, timeline.again_us = lifetimes[-1].key[1], begun_us[-1] - begun_us[0]
        has_failed = attempt.failed_us is not None
        timeline.until(min(attempt.over_us, end_us), "detection" if has_failed else "idle")
        restarts = end_us < self._ended_us or (has_failed and self._run.state in ACTIVE_STATES)
        timeline.until(end_us, "restart" if restarts else "idle")
        return timeline

    def _life(
        self,
        timeline: _Timeline,
        life: ProcessLifetime,
        end_us: int,
        measured: Interference | None,
        *,
        is_over: bool,
    ) -> None:
        """Cut the time of a process until its attempt had failed or ended."""
        if not life.has_clock:
            may_record = self._run.benchmark or self._run.state in ACTIVE_STATES
            records = may_record or any(other.has_clock for other in self._lives[life.rank])
            timeline.until(end_us, "initialization" if records else "unknown")
            return
        # A resumed process carries the phases of its checkpoint along.
        lifetimes = [earlier for earlier in self._lives[life.rank] if earlier.has_clock]
        previous = [
            earlier
            for earlier in lifetimes[: lifetimes.index(life)]
            if earlier.kept_us(self.lineage) > earlier.trains_us
        ]
        phases: list[tuple[Bucket, float]] = []
        before_training: tuple[Literal["compile", "restore"], ...] = ("compile", "restore")
        for phase in before_training:
            metric = names.phase_metric(phase)
            carried = previous[-1].before_training(metric) if previous and life.is_resumed else 0.0
            phases.append((phase, life.before_training(metric) - carried))
        timeline.until(min(life.trains_us, end_us), "initialization", lambda _: phases)
        kept_us = life.kept_us(self.lineage)
        useless_us, useless = self._useless
        known_us = min(kept_us, life.last_us, end_us, useless_us)
        parts = partial(self._parts, life, measured, known_us)
        timeline.until(known_us, "paused", parts)
        if useless_us < min(kept_us, end_us):
            timeline.until(useless_us, "unknown")
            timeline.until(min(life.last_us, end_us) if is_over else end_us, useless)
        elif kept_us < end_us:
            timeline.until(kept_us, "unknown")
            # It is unknown which part of the training before an unclear resumption was repeated.
            unclear = self.lineage.unclear.get(life.rank)
            is_known = unclear is None or life.began_us >= unclear.began_us
            timeline.until(end_us, "lost" if is_known else "unknown")
        elif not is_over:
            timeline.until(end_us, "unknown")

    def _parts(
        self, life: ProcessLifetime, measured: Interference | None, known_us: int, until_us: int
    ) -> Iterator[tuple[Bucket, float]]:
        """Yield the seconds of a process's training by bucket; the first ones take precedence.

        The training is known until ``known_us``; its part until ``until_us`` is returned.
        """
        stops = self._stops[life.key[0]]

        def seconds(metric: str, until_us: int = until_us) -> float:
            return life.in_training(metric, until_us) - stops.seconds(life, metric, until_us)

        data, saving, communication, evaluation = (
            seconds(names.phase_metric(phase))
            for phase in ("data", "checkpoint", "communication", "evaluation")
        )
        waited = 0.0
        if wait := self._waited.get((life.rank, life.key)):
            share, progress = wait
            whole = seconds(names.phase_metric("communication"), known_us)
            waited = max(0.0, whole) * share * progress.at(until_us)
        computed = max(0.0, seconds(names.TRAIN_SECONDS) - saving - data - communication)
        trained = max(0, until_us - life.trains_us) / 1e6
        # A quota throttled the rank, or other programs held its core, for these shares of its time.
        throttled_share = contention_share = 0.0
        if measured and measured.seconds:
            throttled_share = min(1.0, (measured.throttled_seconds or 0.0) / measured.seconds)
            contention_share = min(1.0, measured.contention_share)
        throttled = min(computed, throttled_share * trained)
        busy = {
            "evaluation": evaluation,
            "data": data,
            "communication": max(0.0, communication - waited),
            "compute": computed - throttled,
        }
        total = sum(busy.values())
        contended = min(1.0, contention_share * trained / total) if total else 0.0
        busy = {bucket: (1 - contended) * time for bucket, time in busy.items()}
        yield "stopped", stops.wall_seconds(life, until_us) + throttled
        yield "contention", contended * total
        yield "evaluation", busy["evaluation"]
        yield "checkpoint", saving
        yield "data", busy["data"]
        yield "waiting", waited
        yield "communication", busy["communication"]
        yield "compute", busy["compute"]

    def _waits(self) -> Iterator[tuple[tuple[str, Key], tuple[float, Column]]]:
        """Yield the share of its communication that each process waited for the slowest one.

        The column is the part of this wait until each exchange, from 0 to 1.
        """
        together: dict[Key, list[ProcessLifetime]] = {}
        for life in chain.from_iterable(self._lives.values()):
            if life.has_clock and life.kept_us(self.lineage) > life.trains_us:
                together.setdefault(life.key, []).append(life)
        for key, lives in together.items():
            totals = {life.rank: life.totals for life in lives}
            kept_us = min(life.kept_us(self.lineage) for life in lives)
            stops = [(stop.begin_us, stop.end_us) for stop in self._stops[key[0]].spans]
            exchanges = outside(exchanges_of(totals, _SPAN_US), [*stops, (kept_us, _NEVER_US)])
            least = sum(exchange.steps * exchange.least for exchange in exchanges)
            begin_us = max(life.trains_us for life in lives)
            times_us = [begin_us, *(max(begin_us, exchange.at_us) for exchange in exchanges)]
            for rank in totals:
                total = sum(exchange.steps * exchange.seconds[rank] for exchange in exchanges)
                waits = [e.steps * (e.seconds[rank] - e.least) for e in exchanges]
                waited = sum(waits)
                if waited > 0:
                    parts = [part / waited for part in accumulate(waits, initial=0.0)]
                    yield (rank, key), (1 - least / total, Column(times_us, parts))
