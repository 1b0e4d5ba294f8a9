"""Runs: store an order, find, describe, stop, delete."""

import dataclasses
import time
import uuid
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import falcon
from peewee import Expression, fn

from master.database import STATE, database, exclusive, snapshot
from master.models import Deletion, Rank, Run, Stream, deleted_owner, run_owner
from master.orders import RunOrder, check_feasible
from master.recording.limits import describe_refused
from master.settings import Limits
from master.times import seconds_to_text
from mlbench import records
from mlbench.names import ACTIVE_STATES

_COLUMNS = frozenset(Run._meta.fields)
_UNCOUNTED = "its samples are not yet counted: Prometheus must take them first"


def create(order: RunOrder, limits: Limits) -> Run:
    """Store a new run, for the controller to start.

    Raises:
        BadFieldError: it asks for more than the pool can give (400).
        falcon.HTTPConflict: a run is active, and this one is not to be queued (409).
    """
    check_feasible(order, limits)
    with exclusive(STATE):
        active = find_active()
        if active is not None and not order.queue:
            raise falcon.HTTPConflict(
                description=f"run {active.id} ({active.name}) is active: wait until it has ended, "
                "stop it, or let this one wait: queue=true, or `mlbench run --queue`"
            )
        resolved = {
            "benchmark": order.task.name if order.task else "",
            "args": order.all_args,
            "image": order.custom_image_name or "",
            "command": order.custom_image_command or "",
            "backend": order.backend_name,
            "run_all_nodes": order.runs_on_all,
            "max_bandwidth": order.wanted_bandwidth(limits),
        }
        return Run.create(
            **order.model_dump(include=set(_COLUMNS)) | resolved,
            job_id=str(uuid.uuid4()),
            state="INITIALIZED",
            created_at=time.time(),
        )


def describe(run: Run) -> records.Run:
    """Describe a run as the API shows it."""
    return _describe(run, _ranks_by_run(Run.id == run.id).get(run.id, ()))


def describe_from(first_id: int, pod: str | None = None) -> list[records.Run]:
    """Return the runs from an id on, the oldest first, all as they are at one moment.

    With ``pod``, only those whose latest attempt has a rank there.
    """
    wanted = Run.id >= first_id
    if pod is not None:
        there = Rank.select().where(Rank.run == Run.id, Rank.worker == pod)
        wanted &= fn.EXISTS(there.where(Rank.attempt == Run.attempt))
    with snapshot():
        found = list(Run.select().where(wanted).order_by(Run.id))
        ranks = _ranks_by_run(wanted)
    return [_describe(run, ranks.get(run.id, ())) for run in found]


def _describe(run: Run, ranks: tuple[records.Rank, ...]) -> records.Run:
    others = {
        "created_at": seconds_to_text(run.created_at),
        "started_at": seconds_to_text(run.started_at),
        "finished_at": seconds_to_text(run.finished_at),
        "goal_reached_at": seconds_to_text(run.goal_reached_at),
        "reason": reason_of(run),
        "waiting": run.waiting or ("" if is_counted(run) else _UNCOUNTED),
        "goal": goal_of(run),
        "delivery": records.Delivery(**run.delivery) if run.delivery else None,
        "ranks": ranks,
    }
    return records.Run(**columns_of(run, records.Run) | others)


def goal_of(run: Run) -> records.Goal | None:
    """Return the goal of a run; None for a task without one."""
    return records.Goal(**run.goal) if run.goal else None


def columns_of(run: Run, record: type[records.Record]) -> dict[str, Any]:
    """Return the columns of a run that a record has fields for, by name."""
    parts = dataclasses.fields(record)
    return {part.name: getattr(run, part.name) for part in parts if part.name in _COLUMNS}


def _ranks_by_run(wanted: Expression) -> Mapping[int, tuple[records.Rank, ...]]:
    """Return the ranks of the latest attempts of some runs, by the run's id: in one query."""
    rows = (
        Rank.select(Rank.run, Rank.rank, Rank.worker, Rank.exit_code)
        .join(Run)
        .where(wanted, Rank.attempt == Run.attempt)
        .order_by(Rank.run, Rank.rank)
    )
    return {
        run_id: tuple(records.Rank(*row[1:]) for row in its)
        for run_id, its in groupby(database.execute(rows), itemgetter(0))
    }


def find_active() -> Run | None:
    """Return the run that has not ended, if there is one; the others wait in the queue."""
    oldest: Run | None = Run.select().where(Run.state.in_(ACTIVE_STATES)).order_by(Run.id).first()
    return oldest


def deadline_at(run: Run) -> float | None:
    """Return the deadline of a run in Unix seconds; a restart does not move it.

    None for a run that has no deadline, or has not started.
    """
    if run.deadline_seconds is None or run.started_at is None:
        return None
    return run.started_at + run.deadline_seconds


def reason_of(run: Run) -> str:
    """Explain why a run ended as it did, and which of its samples were refused."""
    return "; ".join(filter(None, [describe_refused(run), run.reason]))


def is_counted(run: Run) -> bool:
    """Check that a run's samples are counted; those of an active run need not be."""
    return run.state in ACTIVE_STATES or run.delivery is not None or run.settled_at is not None


def find(run_id: int) -> Run:
    """Return a run.

    Raises:
        falcon.HTTPNotFound: there is no such run.
    """
    run = Run.get_or_none(Run.id == run_id) if abs(run_id) < 2**63 else None
    if run is None:
        raise falcon.HTTPNotFound(description=f"run_id: there is no run {run_id}")
    return run


def stop(run: Run) -> None:
    """Ask the controller to stop a run; one that has ended stays as it is."""
    asked = Run.update(stop_requested=True)
    with exclusive(STATE):
        asked.where(Run.id == run.id, Run.state.in_(ACTIVE_STATES)).execute()


def delete(run: Run) -> None:
    """Delete a run that has ended: nobody finds it any more, and the controller sweeps the rest.

    Its series in Prometheus outlive it.

    Raises:
        falcon.HTTPConflict: the run is active.
    """
    with exclusive(STATE):
        if find(run.id).state in ACTIVE_STATES:
            raise falcon.HTTPConflict(description=f"run {run.id} is active: stop it first")
        owner = run_owner(run.id)
        with exclusive(owner):
            # Nothing of it waits to be delivered any more, and nothing can be added.
            Stream.update(owner=deleted_owner(owner), delivered=Stream.size).where(
                Stream.owner == owner
            ).execute()
            Deletion.create(owner=owner)
            run.delete_instance()
