"""The life of a run in the database: create, find, stop, end, delete."""

import logging
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from peewee import Expression

from mlbench.contract.faults import MAX_FAULTS
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import Interference
from mlbench.evaluation.official_rules import Entry
from mlbench.evaluation.stragglers import is_disturbed
from mlbench_master.database.connection import STATE, check_room, exclusive, run_sql, store
from mlbench_master.database.models import (
    DeletedRun,
    Deletion,
    Notification,
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
from mlbench_master.runs import run_faults
from mlbench_master.runs.admission import validate_against_limits
from mlbench_master.runs.presenters import reason_of
from mlbench_master.runs.requests import RunRequest, kubernetes_name
from mlbench_master.settings import InstallationLimits

log = logging.getLogger(__name__)

_ORDERED = Run._meta.fields.keys() & {field.name for field in fields(RunRequest)}
# A run that is being deleted ends within seconds, so the next run waits in the queue.
_OCCUPYING = "state IN (?, ?) AND launcher = '' AND NOT delete_requested ORDER BY id LIMIT ?"
_NEXT = """
    state = ? AND launcher = ''
    OR id IN (SELECT id FROM run WHERE state = ? ORDER BY id LIMIT 1) ORDER BY id
"""


def create(
    order: RunRequest,
    limits: InstallationLimits,
    in_set: Mapping[str, Any] | None = None,
    *,
    user: str = "",
    adjustments: str = "",
) -> Run:
    """Store a new run, which the controller then starts.

    Args:
        order: the request.
        limits: the limits of the pool.
        in_set: columns of a run of a benchmark set: set, place and swept values.
        user: the user who submits it; empty if unknown.
        adjustments: how the request was adapted, for the run's ``reason``.

    Raises:
        BadFieldError: the request exceeds the limits of the pool (400).
        ConflictError: another run is active, and the request does not queue (409).
        NoRoomError: the disk is too full for logs and samples (503).
    """
    validate_against_limits(order, limits)
    check_room()
    with exclusive(STATE):
        active = Run.rows(_OCCUPYING, *ACTIVE_STATES, limits.concurrent_runs)
        if len(active) == limits.concurrent_runs and not (order.queue or limits.always_queue):
            names = " and ".join(f"run {run.id} ({run.title or run.own_name})" for run in active)
            raise ConflictError(
                f"{names} {'is' if len(active) == 1 else 'are'} active. Wait for the end, stop an "
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
            "max_restarts": order.max_restarts or (MAX_FAULTS if order.faults else 0),
            "injected": run_faults.stored(
                run_faults.draw(order.faults, order.seed, order.num_workers)
            ),
            **(in_set or {}),
        }
        run: Run = Run.create(
            **{name: getattr(order, name) for name in _ORDERED} | resolved,
            job_id=str(uuid.uuid4()),
            user=user,
            state="INITIALIZED",
            created_at=time.time(),
        )
    notify()
    return run


def worker_of(run: Run, attempt: int, rank: int) -> int | None:
    """Return the worker, by its own rank, of a rank in an attempt; None if the rank is unknown."""
    rows = Rank.select(Rank.rank, Rank.processes).where(Rank.run == run, Rank.attempt == attempt)
    ranks_of = {row.rank: row.ranks for row in rows.where(Rank.processes.is_null(False))}
    for worker, ranks in ranks_of.items():
        if rank in ranks:
            return worker
    # Workers without several processes have one rank, their own.
    return rank if rank < run.num_workers and rank not in ranks_of else None


def find_next(concurrent: int) -> list[Run]:
    """Return the started runs, and the next queued run if fewer than ``concurrent`` are started.

    External runs are left out.
    """
    runs = Run.rows(_NEXT, "STARTED", "INITIALIZED")
    started = [run for run in runs if run.state == "STARTED"]
    return runs if len(started) < concurrent else started


def find_external() -> list[Run]:
    """Return the active external runs, whose processes MLBench did not start."""
    return Run.rows("state = ? AND launcher <> '' ORDER BY id", "STARTED")


def find_begun() -> list[int]:
    """Return the ids of the started runs that have not ended."""
    query = "SELECT id FROM run WHERE state = ? ORDER BY id"
    return [row[0] for row in run_sql(query, "STARTED").fetchall()]


def has_active() -> bool:
    """Check if any run is active, external runs included, in a tenth of the time of finding it.

    An external run may use the machine of an idle agent, which must then not disturb the run.
    """
    query = "SELECT 1 FROM run WHERE state IN (?, ?) LIMIT 1"
    return run_sql(query, *ACTIVE_STATES).fetchone() is not None


def deadline_at(run: Run) -> float | None:
    """Return the deadline of a run in Unix seconds; None without a deadline or before the start.

    Restarts do not move the deadline.
    """
    if run.deadline_seconds is None or run.started_at is None:
        return None
    return run.started_at + run.deadline_seconds


def find(run_id: int) -> Run:
    """Return a run.

    Raises:
        NotFoundError: the run does not exist.
    """
    is_id = abs(run_id) < 2**63
    rows = Run.rows("id = ?", run_id) if is_id else []
    if rows:
        return rows[0]
    deleted = DeletedRun.get_or_none(DeletedRun.run_id == run_id) if is_id else None
    if deleted and deleted.deleted_by:
        raise NotFoundError(f"run_id: run {run_id} was deleted by {deleted.deleted_by}")
    raise NotFoundError(f"run_id: run {run_id} not found")


def ended_among(run_ids: Collection[int]) -> set[int]:
    """Return which of these runs have ended, by id."""
    ids = [run_id for run_id in run_ids if abs(run_id) < 2**63]
    ended = Run.select(Run.id).where(Run.finished_at.is_null(False), Run.id.in_(ids))
    return {run.id for run in ended}


def check_own(run: Run) -> None:
    """Check that a run belongs to this installation.

    Raises:
        ConflictError: the run is imported, therefore read-only.
    """
    if run.origin is not None:
        raise ConflictError(f"run {run.id} is imported, therefore read-only")


def stop(run: Run, user: str = "") -> None:
    """Ask the controller to stop a run for a user. A run that has ended does not change."""
    update = Run.update(stop_requested=True, stopped_by=user)
    with exclusive(STATE):
        is_new = Run.state.in_(ACTIVE_STATES) & ~Run.stop_requested
        update.where(Run.id == run.id, is_new).execute()
    notify()


def delete(run: Run, user: str = "", *, keep_archive: bool = False) -> bool:
    """Delete a run for a user. An active run is stopped, and deleted when it ends (``end``).

    A deleted run cannot be found any more. The controller then deletes its data, also in
    Prometheus. Its entry in the ledger of its benchmark set stays.

    Returns:
        Whether the run is deleted already.
    """
    with exclusive(STATE):
        current = find(run.id)
        is_active = current.state in ACTIVE_STATES
        if is_active:
            store(current, stop_requested=True, delete_requested=True, stopped_by=user)
        else:
            _delete(current, user, keep_archive=keep_archive)
    notify()
    return not is_active


def end(run_id: int, *, announces: bool = False, **last: Any) -> None:
    """Store the end of an active run, and delete the run if its user requested that.

    Args:
        run_id: the run.
        announces: whether a message about it goes to the webhook.
        last: columns of the run to store.
    """
    # The lock blocks posted samples. Once it is released, posted samples are additions.
    with exclusive(STATE), exclusive(run_owner(run_id)):
        ending = Run.update(last).where(Run.id == run_id, Run.state.in_(ACTIVE_STATES))
        if not ending.execute():
            return
        run = find(run_id)
        if announces:
            # In the transaction of the end, so that a killed controller forgets no message.
            at = time.time()
            Notification.create(run=run, attempt=run.attempt, event="ended", at=at)
        if run.launcher:
            # The pods of an external run exist only as rows, which its ranks no longer need.
            workers = Rank.select(Rank.worker).where(Rank.run == run.id)
            for table in (Pod, Worker):
                table.delete().where(table.name.in_(workers)).execute()
        if run.delete_requested:
            _delete(run, run.stopped_by)
    notify()  # so that the run is sealed


def _delete(run: Run, user: str, *, keep_archive: bool = False) -> None:
    log.info("run %d of %s is deleted by %s", run.id, run.user or "?", user or "?")
    archived = run.archive is not None and not keep_archive
    if run.set_name is not None:
        # The ledger of the benchmark set keeps an entry of the deleted run.
        run_set = RunSet.get_by_id(run.set_name)
        [entry] = entries_of(Run.id == run.id)
        store(run_set, deleted=[*run_set.deleted, asdict(replace(entry, deleted=True))])
    owners = run_owner(run.id), added_owner(run.id)
    # Lock both before the row of the run, in the same order as requests that add samples.
    with exclusive(owners[0]), exclusive(owners[1]):
        for owner in owners:
            # Mark the streams as indexed. Under their new owner, nothing can be added to them.
            Stream.update(owner=deleted_owner(owner), indexed=Stream.size).where(
                Stream.owner == owner
            ).execute()
            Deletion.create(owner=owner, archived=archived)
        DeletedRun.create(run_id=run.id, deleted_by=user, deleted_at=time.time())
        run.delete_instance()


def entries_of(condition: Expression) -> list[Entry]:
    """Return the ledger entries of the runs that match a condition and belong to a set."""
    columns = Rank.select(Rank.run, Rank.interference).join(Run)
    ranks = columns.where(condition, Rank.interference.is_null(False))
    measured = [(rank.run_id, Interference.from_fields(rank.interference)) for rank in ranks]
    disturbed = {run_id for run_id, interference in measured if is_disturbed(interference)}
    return [
        Entry(run.slot, run.id, run.seed, run.state, reason_of(run), run.id in disturbed)
        for run in Run.select().where(condition)
        if run.slot is not None
    ]
