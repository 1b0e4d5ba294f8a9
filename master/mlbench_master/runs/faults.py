"""Failures that are injected into runs: planned, ordered by hand, given to agents, and done."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mlbench.contract import faults
from mlbench.contract.faults import Fault, FaultError
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.records import PlannedFault
from mlbench.contract.runspec import Network, part
from mlbench.evaluation.inputs import InjectedFault
from mlbench_master.database.connection import STATE, exclusive, run_sql
from mlbench_master.database.models import Rank, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError

# An agent is told so long before, as one with nothing to tell polls every 3 s, and many rarely.
_AHEAD_SECONDS = 15.0
# What was due longer ago, while the rank had no process, is over.
LATE_SECONDS = 10.0
_LARGEST = 2**53
_INJECTED = "SELECT injected FROM run WHERE id = ?"


def stored(planned: Sequence[PlannedFault]) -> list[dict[str, Any]]:
    """Return a schedule as a run's row has it."""
    return [asdict(InjectedFault(one.rank, one.fault, one.seconds)) for one in planned]


def draw(text: str | None, seed: int | None, workers: int) -> tuple[PlannedFault, ...]:
    """Return the schedule of a run that is ordered with these; without a seed, that of 0."""
    return faults.draw(text, seed or 0, workers) if text else ()


def order(run: Run, rank: int, text: str, *, in_cluster: bool) -> InjectedFault:
    """Have a failure hit a rank of a run now.

    Raises:
        BadFieldError: there is no such failure, or it cannot be had here.
        NotFoundError: there is no such rank.
        ConflictError: the rank is not running, or somebody else has started it.
    """
    try:
        kind = Fault.parse(text).kind
    except FaultError as error:
        raise BadFieldError("fault", f"{error} (got {text[:80]!r})") from None
    network = any(vars(part(Network, run)).values())
    if problem := faults.why_refused(kind, in_cluster=in_cluster, has_network=network):
        raise BadFieldError("fault", problem)
    if run.launcher:
        raise ConflictError(
            f"run {run.id} was started by {run.launcher}. MLBench injects faults only into runs "
            "that MLBench started."
        )
    if not 0 <= rank < run.num_workers:
        raise NotFoundError(
            f"rank: run {run.id} has workers 0 to {run.num_workers - 1} (got {rank})"
        )
    with exclusive(STATE):
        current = Run.get_by_id(run.id)
        its = "run_id = ? AND attempt = ? AND rank = ? AND exit_code IS NULL"
        if current.state != "STARTED" or not Rank.rows(its, run.id, current.attempt, rank):
            raise ConflictError(f"rank {rank} of run {run.id} is not running")
        fault = InjectedFault(rank, text, due_at=time.time())
        _store(current, [*current.injected, asdict(fault)])
    return fault


def begin(run: Run, deadline_at: float | None) -> None:
    """Give the schedule of a run its times, once all ranks are running; in a transaction.

    What fails after the deadline is not begun again, so nothing is injected then.
    """
    if not any(hit["due_at"] is None for hit in run.injected):
        return
    waiting = "run_id = ? AND attempt = ? AND NOT reported"
    if not Rank.rows(waiting, run.id, run.attempt):
        now = time.time()
        timed = [hit | {"due_at": hit["due_at"] or now + hit["seconds"]} for hit in run.injected]
        is_late = {"problem": "the run is past its deadline then"}
        last = deadline_at or math.inf
        _store(run, [hit if hit["due_at"] < last else hit | is_late for hit in timed])


def due_for(run_id: int | None, rank: int | None) -> tuple[list[dict[str, Any]], bool]:
    """Return the failures that are soon due for a rank, and whether the run's have no times yet."""
    row = run_sql(_INJECTED, run_id).fetchone() if run_id is not None else None
    injected = json.loads(row[0]) if row else []
    since = time.time() - LATE_SECONDS
    until = time.time() + _AHEAD_SECONDS
    due = [
        {"id": number, "fault": fault["fault"], "at": fault["due_at"]}
        for number, fault in enumerate(injected, 1)
        if fault["rank"] == rank
        and fault["at"] is None
        and not fault["problem"]
        and since < (fault["due_at"] or 0) < until
    ]
    return due, any(fault["due_at"] is None for fault in injected)


def note(pod: PodIdentity, run_id: int, number: int, done: Mapping[str, Any]) -> None:
    """Store when a failure was carried out, in which attempt, or why not; the first report counts.

    Raises:
        NotFoundError: there is no such failure for a rank of this pod.
    """
    with exclusive(STATE):
        runs = Run.rows("id = ?", min(run_id, _LARGEST))
        injected = [*runs[0].injected] if runs else []
        if not 0 < number <= len(injected):
            raise NotFoundError(f"fault_id: run {run_id} has no fault {number}")
        fault = injected[number - 1]
        if not Rank.is_of_pod(pod, run_id, done["attempt"], fault["rank"]):
            raise NotFoundError(f"fault_id: fault {number} of run {run_id} belongs to another rank")
        if fault["at"] is None:
            injected[number - 1] = fault | done
            _store(runs[0], injected)


def _store(run: Run, injected: Sequence[dict[str, Any]]) -> None:
    Run.update(injected=injected).where(Run.id == run.id).execute()
