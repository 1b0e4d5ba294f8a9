"""Runs: store an order, find, describe, stop, delete."""

import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from peewee import Expression

from mlbench.contract.faults import MOST
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import Disturbance
from mlbench.evaluation.official_rules import Entry
from mlbench.evaluation.stragglers import is_disturbed
from mlbench_master.database.connection import STATE, check_room, exclusive, run_sql, store
from mlbench_master.database.models import (
    DeletedRun,
    Deletion,
    Pod,
    Rank,
    Run,
    RunSet,
    Stream,
    Worker,
    added_owner,
    deleted_owner,
    run_owner,
)
from mlbench_master.errors import ConflictError, NotFoundError
from mlbench_master.notify import notify
from mlbench_master.reading.counting import delivered_so_far
from mlbench_master.recording.limits import waiting_bytes
from mlbench_master.runs import faults
from mlbench_master.runs.describing import reason_of
from mlbench_master.runs.feasible import check_feasible
from mlbench_master.runs.requests import RunRequest, kubernetes_name
from mlbench_master.settings import Limits

_ORDERED = Run._meta.fields.keys() & {field.name for field in fields(RunRequest)}
# A run that is being deleted ends within seconds: the next one waits for that in the queue.
_TO_STAY = "state IN (?, ?) AND launcher = '' AND NOT delete_requested ORDER BY id LIMIT ?"
_NEXT = """
    state = ? AND launcher = ''
    OR id IN (SELECT id FROM run WHERE state = ? ORDER BY id LIMIT 1) ORDER BY id
"""
_RECORDED = "state = ? AND launcher <> '' ORDER BY id"
_HAS_ACTIVE = "SELECT 1 FROM run WHERE state IN (?, ?) LIMIT 1"


def create(
    order: RunRequest,
    limits: Limits,
    in_set: Mapping[str, Any] | None = None,
    *,
    adjustments: str = "",
) -> Run:
    """Store a new run, for the controller to start.

    Args:
        order: the request.
        limits: the limits of the pool.
        in_set: the columns of a run of a benchmark set: its set, place and swept values.
        adjustments: how the request was adapted, for the run's ``reason``.

    Raises:
        BadFieldError: it asks for more than the pool can give (400).
        ConflictError: a run is active, and this one is not to be queued (409).
        NoRoomError: the disk is too full for its logs and samples (503).
    """
    check_feasible(order, limits)
    check_room()
    with exclusive(STATE):
        active = Run.rows(_TO_STAY, *ACTIVE_STATES, limits.concurrent_runs)
        if len(active) == limits.concurrent_runs and not (order.queue or limits.always_queue):
            these = " and ".join(f"run {run.id} ({run.title or run.own_name})" for run in active)
            raise ConflictError(
                f"{these} {'is' if len(active) == 1 else 'are'} active. Wait for the end, stop an "
                "active run, or queue this one with queue=true (`mlbench run --queue`)."
            )
        resolved = {
            "name": kubernetes_name(order.name),
            "display_name": order.name,
            "benchmark": order.task.name if order.task else "",
            "by_default": order.by_default,
            "adjustments": adjustments,
            "args": order.all_args,
            "image": order.custom_image_name or limits.framework_images.get(order.framework, ""),
            "command": order.custom_image_command or "",
            "backend": order.backend_name,
            "run_all_nodes": order.runs_on_all,
            "max_bandwidth": order.wanted_bandwidth(limits),
            "max_restarts": order.max_restarts or (MOST if order.faults else 0),
            "injected": faults.stored(faults.draw(order.faults, order.seed, order.num_workers)),
            **(in_set or {}),
        }
        created: Run = Run.create(
            **{name: getattr(order, name) for name in _ORDERED} | resolved,
            job_id=str(uuid.uuid4()),
            state="INITIALIZED",
            created_at=time.time(),
        )
    notify()
    return created


def worker_of(run: Run, attempt: int, rank: int) -> int | None:
    """Return the rank of the worker that has a rank in an attempt; None if none has it."""
    there = Rank.select(Rank.rank, Rank.processes).where(Rank.run == run, Rank.attempt == attempt)
    several = {one.rank: one.ranks for one in there.where(Rank.processes.is_null(False))}
    found = next((worker for worker, ranks in several.items() if rank in ranks), None)
    if found is None and rank < run.num_workers and rank not in several:
        return rank
    return found


def find_next(concurrent: int) -> list[Run]:
    """Return the runs that have begun, then the next one if fewer than ``concurrent`` go on.

    Recorded runs are not among them.
    """
    runs = Run.rows(_NEXT, "STARTED", "INITIALIZED")
    begun = [run for run in runs if run.state == "STARTED"]
    return runs if len(begun) < concurrent else begun


def find_recorded() -> list[Run]:
    """Return the runs that go on though MLBench has not started their processes."""
    return Run.rows(_RECORDED, "STARTED")


def find_begun() -> list[int]:
    """Return the ids of the runs that have begun, and not ended."""
    return [row[0] for row in run_sql("SELECT id FROM run WHERE state = ?", "STARTED").fetchall()]


def has_active() -> bool:
    """Check if there is a run that has not ended, in a tenth of the time of finding it.

    Also a recorded one: it may be on the machine of an agent, which keeps its hands of it.
    """
    return run_sql(_HAS_ACTIVE, *ACTIVE_STATES).fetchone() is not None


def deadline_at(run: Run) -> float | None:
    """Return the deadline of a run in Unix seconds; a restart does not move it.

    None for a run that has no deadline, or has not started.
    """
    if run.deadline_seconds is None or run.started_at is None:
        return None
    return run.started_at + run.deadline_seconds


def find(run_id: int) -> Run:
    """Return a run.

    Raises:
        NotFoundError: there is no such run.
    """
    known = Run.rows("id = ?", run_id) if abs(run_id) < 2**63 else []
    if not known:
        raise NotFoundError(f"run_id: run {run_id} not found")
    return known[0]


def ended_among(run_ids: Collection[int]) -> set[int]:
    """Return the ids of those runs that have ended."""
    known = [run_id for run_id in run_ids if abs(run_id) < 2**63]
    ended = Run.select(Run.id).where(Run.finished_at.is_null(False), Run.id.in_(known))
    return {run.id for run in ended}


def check_own(run: Run) -> None:
    """Make sure that a run is one of this installation.

    Raises:
        ConflictError: it was imported, and is read only.
    """
    if run.origin is not None:
        raise ConflictError(f"run {run.id} is imported, therefore read-only")


def stop(run: Run) -> None:
    """Ask the controller to stop a run; one that has ended stays as it is."""
    asked = Run.update(stop_requested=True)
    with exclusive(STATE):
        asked.where(Run.id == run.id, Run.state.in_(ACTIVE_STATES)).execute()
    notify()


def delete(run: Run, *, keep_archive: bool = False) -> bool:
    """Delete a run, or have one that is active stopped, and deleted as it ends (``end``).

    Nobody finds a deleted run any more, and the controller sweeps the rest, its series in
    Prometheus too. Its entry in the ledger of its set stays.

    Returns:
        Whether it is deleted by now.
    """
    with exclusive(STATE):
        current = find(run.id)
        is_active = current.state in ACTIVE_STATES
        if is_active:
            store(current, stop_requested=True, delete_requested=True)
        else:
            _delete(current, keep_archive=keep_archive)
    notify()
    return not is_active


def end(run_id: int, **last: Any) -> None:
    """Give an active run the columns of its end, and delete it if its user wants that.

    Samples that were posted since it was counted have it counted again.
    """
    # Nothing is posted meanwhile: from then on it is an addition.
    with exclusive(STATE), exclusive(run_owner(run_id)):
        ending = Run.update(last).where(Run.id == run_id, Run.state.in_(ACTIVE_STATES))
        if not ending.execute():
            return
        ended = find(run_id)
        counted = ended.delivery["recorded"] if ended.delivery else 0
        if waiting_bytes(run_owner(run_id)) or delivered_so_far(run_id).recorded != counted:
            Run.update(delivery=None).where(Run.id == run_id).execute()
        if ended.launcher:
            _delete_pods(ended)
        if ended.delete_requested:
            _delete(ended)
    notify()  # to have it sealed


def _delete_pods(run: Run) -> None:
    """Delete what stands for the ranks of a recorded run, of which nothing more can come."""
    its = Rank.select(Rank.worker).where(Rank.run == run.id)
    for table in (Pod, Worker):
        table.delete().where(table.name.in_(its)).execute()


def _delete(run: Run, *, keep_archive: bool = False) -> None:
    archived = run.archive is not None and not keep_archive
    if run.set_name is not None:
        _leave_trace(run)
    owners = run_owner(run.id), added_owner(run.id)
    # Both before the run's row: who adds samples locks in this order.
    with exclusive(owners[0]), exclusive(owners[1]):
        for owner in owners:
            # Nothing of it waits to be delivered any more, and nothing can be added.
            Stream.update(owner=deleted_owner(owner), delivered=Stream.size).where(
                Stream.owner == owner
            ).execute()
            Deletion.create(owner=owner, archived=archived)
        DeletedRun.create(run_id=run.id, deleted_at=time.time())
        run.delete_instance()


def _leave_trace(run: Run) -> None:
    """Have the ledger of its set remember a run that is about to be deleted."""
    found = RunSet.get_by_id(run.set_name)
    [entry] = entries_of(Run.id == run.id)
    store(found, deleted=[*found.deleted, asdict(replace(entry, deleted=True))])


def entries_of(wanted: Expression) -> list[Entry]:
    """Return the ledger entries of those runs that belong to a set."""
    columns = Rank.select(Rank.run, Rank.disturbance).join(Run)
    ranks = columns.where(wanted, Rank.disturbance.is_null(False))
    measured = [(rank.run_id, Disturbance.from_fields(rank.disturbance)) for rank in ranks]
    disturbed = {run_id for run_id, disturbance in measured if is_disturbed(disturbance)}
    return [
        Entry(run.place, run.id, run.seed, run.state, reason_of(run), run.id in disturbed)
        for run in Run.select().where(wanted)
        if run.place is not None
    ]
