"""Where every worker-second of a run went, from its order to its end. Pure.

The time of each worker is cut into buckets from the front to the back, in whole microseconds. What
is cut is not cut again, so buckets exclude each other and add up exactly. What overlaps, and why:

- What a process did after the checkpoint from which the run went on is *lost*, whatever it was:
  steps, evaluations and further checkpoints all had to be done again.
- *Evaluation* beats communication: ranks that evaluate exchange scores, which trains nothing.
- *Waiting* is what a rank communicates longer than the one that communicates least in the same ten
  seconds: ranks end an exchange together, so that one came last, and the others waited for it. In
  windows, as another rank may be the slowest later; ten seconds, as totals come once in one.
- *Compute* is all other training time: forward and backward pass, optimizer, metrics, a framework's
  step in one piece, and what lies between the phases. Code that times none of them computes.
- *Paused* is what passed between two epochs and is in no phase: the training's clock stood.
- Once a rank has failed, nothing that the others do is of use: until the last of them has ended,
  that is *detection*; from there to the next attempt, *restart*. What the new processes need until
  they train is theirs, in the same buckets as at the first start.
- What nobody has recorded is *unknown*, such as the last second of a process that is stopped, or
  all of one that records no training time. It is not guessed, and counts as moving nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Literal

from mlbench import names
from mlbench.buckets import BEGINNING, PRODUCTIVE
from mlbench.evaluation.columns import Columns
from mlbench.evaluation.dates import dates_of
from mlbench.evaluation.line import UnclearResumption
from mlbench.evaluation.lives import Key, Life, descent, lives_of, sources_of, whole_us
from mlbench.evaluation.rows import RankRow, RunRow
from mlbench.names import ACTIVE_STATES, BUCKETS, Bucket, Phase
from mlbench.results import Goodput, RankGoodput

_BEFORE_TRAINING: tuple[Literal["compile", "restore"], ...] = ("compile", "restore")
_COMMUNICATION = names.phase_metric("communication")
_WINDOW_US, _MOST_WINDOWS = 10_000_000, 100

_Us = Counter[Bucket]


@dataclass
class _Tape:
    """The time of a process, which is cut from the front."""

    at_us: int
    cut: _Us
    restarts: int = 0
    """How often torchrun began the process anew."""
    again_us: int = 0
    """What it then needed until it trained."""

    def until(self, end_us: int, rest: Bucket, parts: Iterable[tuple[Bucket, float]] = ()) -> None:
        """Cut off what comes before a time: seconds of parts, as far as it goes, then a rest."""
        left = max(0, end_us - self.at_us)
        self.at_us += left
        for bucket, seconds in parts:
            us = min(left, whole_us(seconds))
            self.cut[bucket] += us
            left -= us
        self.cut[rest] += left


@dataclass(frozen=True)
class _Attempt:
    """When an attempt failed, if it did, and when the last of its ranks had ended."""

    failed_us: int | None
    over_us: int


def goodput_of(
    run: RunRow,
    ranks: Sequence[RankRow],
    ended_at: float,
    series: Columns,
    unclear: Mapping[str, UnclearResumption],
) -> Goodput | None:
    """Return where the time of a run's workers went until its end, or now; None before its start.

    ``ranks`` are those of all attempts, ``series`` what its result is computed from. The training
    before an unclear resumption of a rank is unknown: nobody knows which of it was done again.
    """
    if run.started_at is None or not ranks:
        return None
    rows = list(_Cutter(run, ranks, ended_at, series, unclear).rows())
    total = sum((us for _, us in rows), _Us())
    by_rank = tuple(row for row, _ in rows)
    recorded = total["compute"] + total["communication"] + total["lost"]
    share = sum(total[bucket] for bucket in PRODUCTIVE) / total.total() if recorded else None
    return Goodput(share, _seconds(total), by_rank)


def largest(runs: Iterable[Goodput]) -> Bucket | None:
    """Return what took most of the time of runs that did not move their models; None without."""
    others = Counter[Bucket]()
    for one in runs:
        others.update({b: round(s * 1e6) for b, s in one.seconds.items() if b not in PRODUCTIVE})
    return max(others, key=lambda bucket: others[bucket], default=None)


def _seconds(us: _Us) -> dict[Bucket, float]:
    return {bucket: us[bucket] / 1e6 for bucket in BUCKETS if us[bucket]}


class _Cutter:
    def __init__(
        self,
        run: RunRow,
        ranks: Sequence[RankRow],
        ended_at: float,
        series: Columns,
        unclear: Mapping[str, UnclearResumption],
    ) -> None:
        self._run = run
        self._unclear = unclear
        self._ended_us = round(ended_at * 1e6)
        self._lives = lives_of(ranks, series, dates_of(ranks, run.started_at or 0.0, ended_at))
        self._sources = sources_of(self._lives)
        self._kept = descent(self._lives, self._sources)
        self._waited = dict(self._waits())
        self._rows: dict[int, list[RankRow]] = {}
        attempts: dict[int, list[RankRow]] = {}
        for row in sorted(ranks, key=lambda row: (row.rank, row.attempt)):
            self._rows.setdefault(row.rank, []).append(row)
            attempts.setdefault(row.attempt, []).append(row)
        self._attempts = {attempt: self._attempt(rows) for attempt, rows in attempts.items()}

    def _attempt(self, rows: Sequence[RankRow]) -> _Attempt:
        over_us = max(self._ended(row) for row in rows)
        was_stopped = rows[0].attempt == self._run.attempt and self._run.state == "STOPPED"
        failed = [self._ended(row) for row in rows if row.lost or row.exit_code]
        return _Attempt(None if was_stopped else min(failed, default=None), over_us)

    def _ended(self, row: RankRow) -> int:
        return self._ended_us if row.exited_at is None else whole_us(row.exited_at)

    def rows(self) -> Iterator[tuple[RankGoodput, _Us]]:
        """Yield the time of each worker in each attempt: the first begins with the run's order."""
        created_at = self._run.created_at or self._run.started_at or 0.0
        for rows in self._rows.values():
            assigned = [round(row.assigned_at * 1e6) for row in rows[1:]]
            ends = [round(created_at * 1e6), *assigned, self._ended_us]
            for row, (begin_us, end_us) in zip(rows, pairwise(ends), strict=True):
                tapes = [self._process(row, str(rank), begin_us, end_us) for rank in row.ranks]
                us, again_us = _mean([tape.cut for tape in tapes]), fmean(t.again_us for t in tapes)
                restarts = tapes[0].restarts
                its = (row.rank, row.attempt, _seconds(us), restarts, round(again_us) / 1e6)
                yield RankGoodput(*its), us

    def _process(self, row: RankRow, rank: str, begin_us: int, end_us: int) -> _Tape:
        attempt = self._attempts[row.attempt]
        tape = _Tape(begin_us, _Us())
        assigned_us, room_at = round(row.assigned_at * 1e6), self._run.room_at
        tape.until(assigned_us if room_at is None else whole_us(room_at), "queued")
        tape.until(assigned_us, "workers")
        lives = [life for life in self._lives[rank] if life.key[0] == row.attempt]
        begun_us = []
        for life, following in zip(lives, [*lives[1:], None], strict=True):
            tape.until(min(life.began_us, end_us), "restart" if life.key[1] else "start")
            if following is None:
                useful_us = min(self._ended(row), attempt.failed_us or end_us, end_us)
            else:  # torchrun does not say when one has failed
                last_us = life.last_us if life.has_clock else following.began_us
                useful_us = min(last_us, end_us)
            self._life(tape, life, useful_us, is_over=following is None and row.exit_code == 0)
            begun_us.append(sum(tape.cut[bucket] for bucket in BEGINNING))
        tape.restarts, tape.again_us = lives[-1].key[1], begun_us[-1] - begun_us[0]
        has_failed = attempt.failed_us is not None
        tape.until(min(attempt.over_us, end_us), "detection" if has_failed else "idle")
        goes_on = end_us < self._ended_us or (has_failed and self._run.state in ACTIVE_STATES)
        tape.until(end_us, "restart" if goes_on else "idle")
        return tape

    def _life(self, tape: _Tape, life: Life, end_us: int, *, is_over: bool) -> None:
        """Cut the time of a process until it was of no use any more."""
        if not life.has_clock:
            tape.until(end_us, "initialization" if self._records(life.rank) else "unknown")
            return
        tape.until(min(life.trains_us, end_us), "initialization", self._before_training(life))
        kept_us = self._kept.get((life.rank, life.key), life.trains_us)
        known_us = min(kept_us, life.last_us, end_us)
        tape.until(known_us, "paused", self._parts(life, known_us))
        if kept_us < end_us:
            tape.until(kept_us, "unknown")
            unclear = self._unclear.get(life.rank)
            is_known = unclear is None or life.began_us >= unclear.began_us
            tape.until(end_us, "lost" if is_known else "unknown")
        elif not is_over:
            tape.until(end_us, "unknown")

    def _records(self, rank: str) -> bool:
        """Check whether a rank records its training time, or may do so yet."""
        is_known = self._run.benchmark or self._run.state in ACTIVE_STATES
        return bool(is_known) or any(life.has_clock for life in self._lives[rank])

    def _before_training(self, life: Life) -> Iterator[tuple[Bucket, float]]:
        """Yield what else a process did before it trained; its checkpoint has earlier times."""
        source, _ = self._sources.get((life.rank, life.key), (None, 0))
        earlier = next((one for one in self._lives[life.rank] if one.key == source), None)
        for phase in _BEFORE_TRAINING:
            metric = names.phase_metric(phase)
            carried = earlier.before_training(metric) if earlier and earlier.has_clock else 0.0
            yield phase, life.before_training(metric) - carried

    def _parts(self, life: Life, until_us: int) -> Iterator[tuple[Bucket, float]]:
        """Yield how long a process did what in its training, what beats others first."""

        def seconds(phase: Phase) -> float:
            return life.in_training(names.phase_metric(phase), until_us)

        data, saving = seconds("data"), seconds("checkpoint")
        communication = seconds("communication")
        waited = min(communication, self._waited.get((life.rank, life.key), 0.0))
        training = life.in_training(names.TRAIN_SECONDS, until_us)
        yield "evaluation", seconds("evaluation")
        yield "checkpoint", saving
        yield "data", data
        yield "waiting", waited
        yield "communication", communication - waited
        yield "compute", training - saving - data - communication

    def _waits(self) -> Iterator[tuple[tuple[str, Key], float]]:
        """Yield how long each process waited in exchanges for the slowest one, in seconds."""
        together: dict[Key, list[tuple[Life, int]]] = {}
        for life in (life for of_rank in self._lives.values() for life in of_rank):
            kept_us = self._kept.get((life.rank, life.key))
            if kept_us is not None and life.has_clock and _COMMUNICATION in life.totals:
                together.setdefault(life.key, []).append((life, min(kept_us, life.last_us)))
        for key, lives in together.items():
            begin_us = max(life.trains_us for life, _ in lives)
            end_us = max(begin_us, min(kept_us for _, kept_us in lives))
            count = max(1, min(_MOST_WINDOWS, (end_us - begin_us) // _WINDOW_US))
            edges = [begin_us + (end_us - begin_us) * i // count for i in range(count + 1)]
            in_windows = [_in_windows(life, edges) for life, _ in lives]
            least = [min(window) for window in zip(*in_windows, strict=True)]
            for (life, _), its in zip(lives, in_windows, strict=True):
                yield (life.rank, key), sum(its) - sum(least)


def _in_windows(life: Life, edges: Sequence[int]) -> list[float]:
    """Return how long a process communicated in each window."""
    totals = [life.at(_COMMUNICATION, edge) for edge in edges]
    return [end - begin for begin, end in pairwise(totals)]


def _mean(processes: Sequence[_Us]) -> _Us:
    """Return the mean time of a worker's processes, which had the same time to the microsecond."""
    total = sum(processes, _Us())
    mean = _Us({bucket: us // len(processes) for bucket, us in total.items()})
    most = max(BUCKETS, key=lambda bucket: mean[bucket])
    mean[most] += processes[0].total() - mean.total()
    return mean
