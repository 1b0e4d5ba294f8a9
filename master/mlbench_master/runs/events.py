"""What happened to a run, in order of time: from its order to its end."""

import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from mlbench.contract.records import EventKind, RunEvent
from mlbench.contract.words import count
from mlbench.evaluation.inputs import InjectedFault
from mlbench.report import figures
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import autopsies
from mlbench_master.runs.describing import STOPPED_BY, added_to, note_of, reason_of
from mlbench_master.runs.faults import LATE_SECONDS
from mlbench_master.times import seconds_to_text

_ORDER = {kind: place for place, kind in enumerate(get_args(EventKind))}
_WHY_ASKED = {
    "asked": "Why it does not go on was asked",
    "stalled": "It makes no progress",
    "deadline": "It is past its deadline",
    "failed": "A rank has failed while others ran",
    "stopped": "It made no progress as it was stopped",
}
_ENDS: dict[str, EventKind] = {"FINISHED": "finished", "FAILED": "failed", "STOPPED": "stopped"}


def events_of(run: Run) -> list[RunEvent]:
    """List the events of a run so far, in order of time."""
    attempts: dict[int, list[Rank]] = {}
    ranks = Rank.select_without(*Rank.LARGE).where(Rank.run == run)
    for rank in ranks.order_by(Rank.attempt, Rank.rank):
        attempts.setdefault(rank.attempt, []).append(rank)
    ordered = ": ".join(filter(None, ["The run was ordered", note_of(run)]))
    events = [_event(run.created_at, "created", 0, None, ordered)]
    for ranks in attempts.values():
        events += _beginning(ranks)
        events += _begun_anew(ranks)
        events += _ends_of_ranks(run, ranks)
    events += _goal(run, attempts)
    events += _autopsies(run)
    events += _faults(run, attempts)
    events += _end(run)
    events += _shipped(run)
    events += _added(run)
    return sorted(events, key=lambda event: (event.time, _ORDER[event.kind]))


def _event(seconds: float, kind: EventKind, attempt: int, rank: int | None, text: str) -> RunEvent:
    return RunEvent(seconds_to_text(seconds), kind, attempt, rank, text)


def _beginning(ranks: Sequence[Rank]) -> Iterator[RunEvent]:
    attempt, begun_at = ranks[0].attempt, ranks[0].assigned_at
    ready = f"{_count(ranks, 'worker')} ready"
    if attempt == 1:
        yield _event(begun_at, "ready", attempt, None, ready)
    else:
        yield _event(begun_at, "restarted", attempt, None, f"Attempt {attempt} began: {ready}")
    reported = [rank.reported_at for rank in ranks if rank.reported_at is not None]
    if len(reported) == len(ranks):
        running = f"{_count(ranks, 'rank')} running"
        yield _event(max(reported), "started", attempt, None, running)


def _begun_anew(ranks: Iterable[Rank]) -> Iterator[RunEvent]:
    """Yield how often torchrun has begun the processes of a worker anew."""
    for rank in ranks:
        for number, at in (rank.processes or {}).get("restarts", {}).items():
            text = f"torchrun on {rank.worker} began its processes anew (restart {number})"
            yield _event(at, "restarted", rank.attempt, rank.rank, text)


def _ends_of_ranks(run: Run, ranks: Sequence[Rank]) -> Iterator[RunEvent]:
    """Yield the ranks that were lost or ended with an error of their own."""
    failed = [rank for rank in ranks if rank.exit_code]
    # Once the first has failed, the others are stopped.
    first = min(failed, key=_over_at, default=None)
    was_to_stop = run.state != "FAILED" and bool(run.stop_requested or run.reason)
    if any(rank.failure for rank in ranks) or (run.attempt == ranks[0].attempt and was_to_stop):
        first = None
    for rank in ranks:
        place = rank.worker if rank.processes else f"Rank {rank.rank} on {rank.worker}"
        of_rank, code = (rank.attempt, rank.rank), rank.exit_code
        if rank.failure:
            yield _event(_over_at(rank), "exited", *of_rank, f"{place}: {rank.failure}")
        elif code and (rank is first or not rank.stop or code not in STOPPED_BY):
            yield _event(_over_at(rank), "exited", *of_rank, f"{place} {describe_exit(code)}")
        if rank.lost:
            yield _event(_over_at(rank), "lost", *of_rank, f"{place} is lost: {rank.lost}")


def _over_at(rank: Rank) -> float:
    return rank.assigned_at if rank.exited_at is None else rank.exited_at


def _goal(run: Run, attempts: dict[int, list[Rank]]) -> Iterator[RunEvent]:
    reached_at = run.goal_reached_at
    if reached_at is None:
        return
    text = "The goal was reached"
    if run.goal_train_seconds is not None:
        text += f" after {figures.seconds(run.goal_train_seconds)} of training"
    if goal := run.goal:
        sign = "≤" if goal["lower_is_better"] else "≥"
        text += f": {goal['metric']} {sign} {goal['value']:.15g}"
    yield _event(reached_at, "goal", _attempt_at(reached_at, attempts), None, text)


def _attempt_at(seconds: float, attempts: dict[int, list[Rank]]) -> int:
    began = (number for number, ranks in attempts.items() if ranks[0].assigned_at <= seconds)
    return max(began, default=1)


def _autopsies(run: Run) -> Iterator[RunEvent]:
    for one in autopsies.asked_of(run.id):
        said = autopsies.sentence_of(one) if autopsies.is_done(one) else "it is being asked"
        text = f"{_WHY_ASKED[one.reason]}: {said}"
        yield _event(one.asked_at, "autopsy", one.attempt, None, text)


def _faults(run: Run, attempts: dict[int, list[Rank]]) -> Iterator[RunEvent]:
    """Yield the failures whose time has come."""
    until = time.time() if run.finished_at is None else run.finished_at
    for one in map(InjectedFault.from_fields, run.injected):
        if one.due_at is not None and one.due_at <= until:
            yield of_fault(one, _attempt_at(one.due_at, attempts))


def of_fault(one: InjectedFault, attempt: int) -> RunEvent:
    """Return the event of a failure, given the run's attempt if it is not carried out yet."""
    text = f"{one.fault} of rank {one.rank}, {one.how}"
    at = one.due_at or 0.0 if one.at is None else one.at
    if one.problem:
        text += f", did not happen: {one.problem}"
    elif one.at is None:
        is_late = time.time() > at + LATE_SECONDS
        text += ", did not happen: it had no process then" if is_late else ", is due"
    return _event(at, "fault", one.attempt or attempt, one.rank, text)


def _end(run: Run) -> Iterator[RunEvent]:
    if run.finished_at is None or run.state not in _ENDS:
        return
    kind = _ENDS[run.state]
    how = "was stopped" if kind == "stopped" else kind
    why = reason_of(run).partition("\n")[0]
    text = f"The run {how}: {why}" if why else f"The run {how}"
    yield _event(run.finished_at, kind, run.attempt, None, text)


def _shipped(run: Run) -> Iterator[RunEvent]:
    if run.shipped_at is not None and run.finished_at is not None:
        later = figures.seconds(run.shipped_at - run.finished_at)
        text = f"The recording was shipped {later} after its end"
        yield _event(run.shipped_at, "shipped", run.attempt, None, text)


def _added(run: Run) -> Iterator[RunEvent]:
    if (added := added_to(run)) is None:
        return
    late, posted = added.of_lost_ranks, added.samples - added.of_lost_ranks
    for samples, text in (
        (posted, "Samples were added after the end, which are no part of it"),
        (late, "Samples that ranks sent after they were lost, not part of the result"),
    ):
        if samples:
            yield RunEvent(added.first_at, "added", run.attempt, None, f"{text}: {samples:,}")


def _count(ranks: Sequence[Rank], of: str) -> str:
    return f"{count(len(ranks), of)} {'is' if len(ranks) == 1 else 'are'}"


def describe_exit(exit_code: int) -> str:
    """Return an exit code in words: a negative one is the signal that killed the process."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"was killed by signal {-exit_code}"
