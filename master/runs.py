"""Runs: store an order, find, stop, delete."""

import time
import uuid

import falcon

from master.database import STATE, exclusive
from master.feasibility import check
from master.models import Deletion, Run, Stream, deleted_owner, run_owner
from master.orders import RunOrder
from master.recording.limits import describe_refused
from master.settings import Limits
from mlbench.names import ACTIVE_STATES


def create(order: RunOrder, limits: Limits) -> Run:
    """Store a new run, for the controller to start.

    Raises:
        BadFieldError: it asks for more than the pool can give (400).
        falcon.HTTPConflict: a run is active, and this one shall not wait for it (409).
    """
    check(order, limits)
    with exclusive(STATE):
        active = find_active()
        if active is not None and not order.queue:
            raise falcon.HTTPConflict(
                description=f"run {active.id} ({active.name}) is active: wait until it has ended, "
                "stop it, or let this one wait with queue=true"
            )
        return Run.create(
            job_id=str(uuid.uuid4()),
            name=order.name,
            benchmark=order.task.name if order.task else "",
            args=order.all_args,
            image=order.custom_image_name or "",
            command=order.custom_image_command or "",
            working_dir=order.working_dir,
            backend=order.backend_name,
            run_all_nodes=order.runs_on_all,
            num_workers=order.num_workers,
            num_cpus=order.num_cpus,
            max_bandwidth=order.wanted_bandwidth(limits),
            gpu_enabled=order.gpu_enabled,
            light_target=order.light_target,
            seed=order.seed,
            deadline_seconds=order.deadline_seconds,
            max_restarts=order.max_restarts,
            state="INITIALIZED",
            created_at=time.time(),
        )


def find_active() -> Run | None:
    """Return the run that has not ended, if there is one; the others wait in the queue."""
    oldest: Run | None = Run.select().where(Run.state.in_(ACTIVE_STATES)).order_by(Run.id).first()
    return oldest


def deadline_at(run: Run) -> float | None:
    """Return when training shall end, in Unix seconds: a restart changes nothing in that.

    None for a run that has no deadline, or has not started.
    """
    if run.deadline_seconds is None or run.started_at is None:
        return None
    return run.started_at + run.deadline_seconds


def reason_of(run: Run) -> str:
    """Return why a run ended as it did, and what of its samples was refused."""
    return "; ".join(filter(None, [describe_refused(run), run.reason]))


def is_counted(run: Run) -> bool:
    """Return whether a run's samples are counted; true of one that goes on, as nobody asks yet."""
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
