"""Fault injection: schedules, manual requests, delivery to agents, and their reports."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlbench.contract import faults
from mlbench.contract.faults import Fault, FaultError
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.records import PlannedFault
from mlbench.contract.runspec import NetworkOptions, part
from mlbench.evaluation.inputs import InjectedFault
from mlbench_master.database.connection import STATE, exclusive, run_sql
from mlbench_master.database.models import Rank, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError

LATE_SECONDS = 10.0
"""Seconds after which a fault is no longer injected: the rank had no process when it was due."""


@dataclass(frozen=True)
class DueFault:
    """A fault that the agent must inject into its rank."""

    id: int
    """Number of the fault in its run, from 1."""
    fault: str
    """Fault to inject, e.g. ``kill`` or ``stop:5s``."""
    at: float
    """Time of the fault in Unix seconds, by the master's clock."""


def stored(planned: Sequence[PlannedFault]) -> list[dict[str, Any]]:
    """Return a schedule in the form of a run's column."""
    return [asdict(InjectedFault(fault.rank, fault.fault, fault.seconds)) for fault in planned]


def draw(text: str | None, seed: int | None, workers: int) -> tuple[PlannedFault, ...]:
    """Return the fault schedule of a run. Without a seed, the seed is 0."""
    return faults.fault_schedule(text, seed or 0, workers) if text else ()


def order(run: Run, rank: int, text: str, *, in_cluster: bool) -> InjectedFault:
    """Inject a fault into a rank of a run now.

    Raises:
        BadFieldError: the fault is unknown, or not possible here.
        NotFoundError: the run has no such rank.
        ConflictError: the rank is not running, or MLBench did not start its process.
    """
    try:
        kind = Fault.parse(text).kind
    except FaultError as error:
        raise BadFieldError("fault", f"{error} (got {text[:80]!r})") from None
    network = any(vars(part(NetworkOptions, run)).values())
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
        running = "run_id = ? AND attempt = ? AND rank = ? AND exit_code IS NULL"
        if current.state != "STARTED" or not Rank.rows(running, run.id, current.attempt, rank):
            raise ConflictError(f"rank {rank} of run {run.id} is not running")
        fault = InjectedFault(rank, text, due_at=time.time())
        _store(current, [*current.injected, asdict(fault)])
    return fault


def begin(run: Run, deadline_at: float | None) -> None:
    """Set the times of a run's faults once all ranks are running. Call it in a transaction.

    Faults after the deadline are not injected, because the run would not restart after them.
    """
    if not any(fault["due_at"] is None for fault in run.injected):
        return
    not_running = "run_id = ? AND attempt = ? AND NOT reported"
    if not Rank.rows(not_running, run.id, run.attempt):
        now, faults_of_run = time.time(), []
        for fault in run.injected:
            due_at = fault["due_at"] or now + fault["seconds"]
            is_late = deadline_at is not None and due_at >= deadline_at
            problem = "the run is past its deadline then" if is_late else fault["problem"]
            faults_of_run.append(fault | {"due_at": due_at, "problem": problem})
        _store(run, faults_of_run)


def due_for(run_id: int | None, rank: int | None) -> tuple[list[DueFault], bool]:
    """Return the faults of a rank that are due soon, and whether faults of its run have no time."""
    query = "SELECT injected FROM run WHERE id = ?"
    row = run_sql(query, run_id).fetchone() if run_id is not None else None
    injected = json.loads(row[0]) if row else []
    since = time.time() - LATE_SECONDS
    # Agents get faults 15 s in advance, because they may poll only every few seconds.
    until = time.time() + 15.0
    due = [
        DueFault(number, fault["fault"], fault["due_at"])
        for number, fault in enumerate(injected, 1)
        if fault["rank"] == rank
        and fault["at"] is None
        and not fault["problem"]
        and since < (fault["due_at"] or 0) < until
    ]
    return due, any(fault["due_at"] is None for fault in injected)


def note(pod: PodIdentity, run_id: int, number: int, report: Mapping[str, Any]) -> None:
    """Store an agent's report of a fault; only the first report counts.

    Args:
        pod: the pod of the agent.
        run_id: the run.
        number: number of the fault in the run, from 1.
        report: fields ``at``, ``attempt`` and ``problem``.

    Raises:
        NotFoundError: no rank of this pod has the fault.
    """
    with exclusive(STATE):
        runs = Run.rows("id = ?", min(run_id, 2**53))
        injected = [*runs[0].injected] if runs else []
        if not 0 < number <= len(injected):
            raise NotFoundError(f"fault_id: run {run_id} has no fault {number}")
        fault = injected[number - 1]
        if not Rank.is_of_pod(pod, run_id, report["attempt"], fault["rank"]):
            raise NotFoundError(f"fault_id: fault {number} of run {run_id} belongs to another rank")
        if fault["at"] is None:
            injected[number - 1] = fault | report
            _store(runs[0], injected)


def _store(run: Run, injected: Sequence[dict[str, Any]]) -> None:
    Run.update(injected=injected).where(Run.id == run.id).execute()
