"""Events of a run, in order of time: from its submission to its end."""

import signal
import time
from collections.abc import Iterator, Sequence
from typing import get_args

from mlbench.contract import figures
from mlbench.contract.humanize import count
from mlbench.contract.records import EventKind, RunEvent, Target
from mlbench.evaluation.inputs import InjectedFault
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import diagnoses
from mlbench_master.runs.presenters import STOPPED_BY, added_to, note_of, reason_of
from mlbench_master.runs.run_faults import LATE_SECONDS
from mlbench_master.timestamps import seconds_to_text

_ORDER = {kind: place for place, kind in enumerate(get_args(EventKind))}
_WHY_ASKED = {
    "asked": "Hang diagnosis",
    "stalled": "No progress",
    "deadline": "Past the deadline",
    "failed": "Failed rank",
    "stopped": "No progress before the stop",
}
# A fault takes effect on its rank within this time; clocks of nodes may differ by a second.
_EFFECT_SECONDS = (-1.0, 15.0)
_ENDS: dict[str, EventKind] = {"FINISHED": "finished", "FAILED": "failed", "STOPPED": "stopped"}


def events_of(run: Run) -> list[RunEvent]:
    """List the events of a run so far, in order of time."""
    attempts: dict[int, list[Rank]] = {}
    rows = Rank.select_without(*Rank.LARGE).where(Rank.run == run)
    for rank in rows.order_by(Rank.attempt, Rank.rank):
        attempts.setdefault(rank.attempt, []).append(rank)
    text = ": ".join(filter(None, ["The run was submitted", note_of(run)]))
    events = [_event(run.created_at, "created", 0, None, text)]
    faults = [*map(InjectedFault.from_fields, run.injected)]
    for ranks in attempts.values():
        events += _starts(ranks)
        events += _ends_of_ranks(run, ranks, faults)
    if (reached_at := run.target_reached_at) is not None:
        text = "The target was reached"
        if run.target_train_seconds is not None:
            text += f" after {figures.seconds(run.target_train_seconds)} of training"
        if run.target:
            text += f": {figures.target(Target(**run.target))}"
        attempt = _attempt_at(reached_at, attempts)
        events.append(_event(reached_at, "target", attempt, None, text))
    for diagnosis in diagnoses.asked_of(run.id):
        is_done = diagnoses.is_done(diagnosis)
        outcome = diagnoses.sentence_of(diagnosis) if is_done else "diagnosing"
        text = f"{_WHY_ASKED[diagnosis.reason]}: {outcome}"
        events.append(_event(diagnosis.asked_at, "diagnosis", diagnosis.attempt, None, text))
    now = time.time() if run.finished_at is None else run.finished_at
    for fault in faults:
        if fault.due_at is not None and fault.due_at <= now:
            events.append(of_fault(fault, _attempt_at(fault.due_at, attempts)))
    events += _end(run)
    return sorted(events, key=lambda event: (event.time, _ORDER[event.kind]))


def _event(seconds: float, kind: EventKind, attempt: int, rank: int | None, text: str) -> RunEvent:
    return RunEvent(seconds_to_text(seconds), kind, attempt, rank, text)


def _starts(ranks: Sequence[Rank]) -> Iterator[RunEvent]:
    """Yield the start of an attempt and of its ranks, also restarts by torchrun."""
    attempt, start = ranks[0].attempt, ranks[0].assigned_at
    verb = "is" if len(ranks) == 1 else "are"
    ready = f"{count(len(ranks), 'worker')} {verb} ready"
    if attempt == 1:
        yield _event(start, "ready", attempt, None, ready)
    else:
        yield _event(start, "restarted", attempt, None, f"Attempt {attempt} began: {ready}")
    reported = [rank.reported_at for rank in ranks if rank.reported_at is not None]
    if len(reported) == len(ranks):
        running = f"{count(len(ranks), 'rank')} {verb} running"
        yield _event(max(reported), "started", attempt, None, running)
    for rank in ranks:
        for number, restart_at in (rank.processes or {}).get("restarts", {}).items():
            text = f"torchrun on {rank.worker} restarted its processes (restart {number})"
            yield _event(restart_at, "restarted", attempt, rank.rank, text)


def _ends_of_ranks(
    run: Run, ranks: Sequence[Rank], faults: Sequence[InjectedFault]
) -> Iterator[RunEvent]:
    """Yield an event for each rank that was lost, or failed on its own or by an injected fault."""
    injected = [
        fault.at
        for fault in faults
        if fault.at is not None and not fault.problem and fault.attempt == ranks[0].attempt
    ]
    earliest, latest = _EFFECT_SECONDS

    def end_of(rank: Rank) -> float:
        return rank.assigned_at if rank.exited_at is None else rank.exited_at

    def event_of(rank: Rank, kind: EventKind, text: str) -> RunEvent:
        end = end_of(rank)
        if any(earliest <= end - at < latest for at in injected):
            kind, text = "planned", f"Planned: {text}"
        return _event(end, kind, rank.attempt, rank.rank, text)

    failed = [rank for rank in ranks if rank.exit_code]
    # After the first failure, the controller stops the other ranks.
    first = min(failed, key=end_of, default=None)
    was_to_stop = run.state != "FAILED" and bool(run.stop_requested or run.reason)
    if any(rank.failure for rank in ranks) or (run.attempt == ranks[0].attempt and was_to_stop):
        first = None
    for rank in ranks:
        place = rank.worker if rank.processes else f"Rank {rank.rank} on {rank.worker}"
        code = rank.exit_code
        if rank.failure:
            yield event_of(rank, "exited", f"{place}: {rank.failure}")
        elif code and (rank is first or not rank.stop or code not in STOPPED_BY):
            yield event_of(rank, "exited", f"{place} {describe_exit(code)}")
        if rank.lost:
            yield event_of(rank, "lost", f"{place} is lost: {rank.lost}")


def _attempt_at(seconds: float, attempts: dict[int, list[Rank]]) -> int:
    started = (number for number, ranks in attempts.items() if ranks[0].assigned_at <= seconds)
    return max(started, default=1)


def of_fault(fault: InjectedFault, attempt: int) -> RunEvent:
    """Return the event of a fault; ``attempt`` is the run's, for a fault not yet injected."""
    text = f"Fault: {fault.fault} of rank {fault.rank}, {fault.how}"
    at = fault.due_at or 0.0 if fault.at is None else fault.at
    if fault.problem:
        text += f", did not happen: {fault.problem}"
    elif fault.at is None:
        is_late = time.time() > at + LATE_SECONDS
        text += ", did not happen: it had no process then" if is_late else ", is due"
    return _event(at, "fault", fault.attempt or attempt, fault.rank, text)


def _end(run: Run) -> Iterator[RunEvent]:
    """Yield the end of a run, and the arrival of data after the end."""
    if run.finished_at is not None and run.state in _ENDS:
        kind = _ENDS[run.state]
        reason = reason_of(run).partition("\n")[0]
        # The processes of a run ended in order, but not all runs with a reason have succeeded.
        verb = {"stopped": "was stopped", "finished": "ended" if reason else "finished"}
        text = f"The run {verb.get(kind, kind)}"
        text = f"{text}: {reason}" if reason else text
        yield _event(run.finished_at, kind, run.attempt, None, text)
    if run.shipped_at is not None and run.finished_at is not None:
        delay = figures.seconds(run.shipped_at - run.finished_at)
        text = f"The recording was shipped {delay} after its end"
        yield _event(run.shipped_at, "shipped", run.attempt, None, text)
    added = added_to(run)
    if added is None:
        return
    late = added.of_lost_ranks
    for samples, text in (
        (added.samples - late, "Samples added after the end, not part of the result"),
        (late, "Samples that ranks sent after they were lost, not part of the result"),
    ):
        if samples:
            yield RunEvent(added.first_at, "added", run.attempt, None, f"{text}: {samples:,}")


def describe_exit(exit_code: int) -> str:
    """Describe an exit code; a negative one is the signal that killed the process."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"was killed by signal {-exit_code}"
