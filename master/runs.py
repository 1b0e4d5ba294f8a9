"""Runs, as users order them: create, find, stop, delete."""

import re
import time
import uuid
from typing import Annotated

import falcon
from pydantic import BaseModel, ConfigDict, Field, field_validator

from master.benchmarks import BENCHMARKS
from master.errors import BadFieldError
from master.models import KeptSample, Run, Series, Stream, database, run_owner
from master.settings import Limits
from mlbench.names import ACTIVE_STATES

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

ArgKey = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
# A command line cannot hold a NUL.
ArgValue = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=1024)]


class RunOrder(BaseModel):
    """The body of ``POST /api/runs/``."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    name: str = Field(max_length=40)
    benchmark: str
    num_workers: int = Field(default=2, ge=1)
    num_cpus: int | None = Field(default=None, ge=1)
    max_bandwidth: float | None = None
    max_restarts: int = Field(default=0, ge=0, le=100)
    args: dict[ArgKey, ArgValue] = Field(default_factory=dict, max_length=100)

    @field_validator("name")
    @classmethod
    def _name_fits_kubernetes(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(
                "a name has lowercase letters, digits and hyphens, and begins and ends with "
                "a letter or digit"
            )
        return name

    @field_validator("benchmark")
    @classmethod
    def _benchmark_is_known(cls, name: str) -> str:
        if name not in BENCHMARKS:
            raise ValueError(f"there is no such benchmark; there are {', '.join(BENCHMARKS)}")
        return name


def create(order: RunOrder, limits: Limits) -> Run:
    """Store a new run, for the controller to start.

    Raises:
        BadFieldError: it asks for more than the pool can give (400).
        falcon.HTTPConflict: a run is active (409).
    """
    if order.num_workers > limits.workers:
        raise BadFieldError("num_workers", f"at most {limits.workers} (not {order.num_workers})")
    if order.num_cpus is not None and order.num_cpus > limits.cpus:
        raise BadFieldError(
            "num_cpus", f"a worker here has at most {limits.cpus} cores (not {order.num_cpus})"
        )
    if order.max_bandwidth is not None:
        raise BadFieldError(
            "max_bandwidth", "the bandwidth of workers here cannot be limited; leave it out"
        )
    with database.atomic("IMMEDIATE"):
        active = find_active()
        if active is not None:
            raise falcon.HTTPConflict(
                description=f"run {active.id} ({active.name}) is active: wait until it has ended, "
                "or stop it"
            )
        return Run.create(
            job_id=str(uuid.uuid4()),
            name=order.name,
            benchmark=order.benchmark,
            args=order.args,
            num_workers=order.num_workers,
            num_cpus=order.num_cpus,
            max_restarts=order.max_restarts,
            state="INITIALIZED",
            created_at=time.time(),
        )


def find_active() -> Run | None:
    """Return the run that has not ended, if there is one."""
    return Run.get_or_none(Run.state.in_(ACTIVE_STATES))


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
    Run.update(stop_requested=True).where(Run.id == run.id, Run.state.in_(ACTIVE_STATES)).execute()


def delete(run: Run) -> None:
    """Delete a run that has ended. Its series in Prometheus outlive it.

    Raises:
        falcon.HTTPConflict: the run is active.
    """
    with database.atomic("IMMEDIATE"):
        if find(run.id).state in ACTIVE_STATES:
            raise falcon.HTTPConflict(description=f"run {run.id} is active: stop it first")
        owner = run_owner(run.id)
        for table in (Stream, Series, KeptSample):
            table.delete().where(table.owner == owner).execute()
        run.delete_instance()
