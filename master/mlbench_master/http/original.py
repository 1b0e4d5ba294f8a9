"""MLBench's original client, mlbench-core 3.0.0: how it is known, and what it alone is answered.

Its command line prints each field of the list of runs as a column, and looks for
those whose state is "finished".
"""

from dataclasses import replace
from typing import Any

from falcon import Request
from pydantic import field_validator
from pydantic.dataclasses import dataclass as request

from mlbench.contract.records import OriginalRun, Run
from mlbench_master.runs.requests import STRICT, RunRequest
from mlbench_master.settings import Limits


@request(frozen=True, kw_only=True, config=STRICT)
class OriginalRunRequest(RunRequest):
    """The body of ``POST /api/runs/`` as this client sends it."""

    @field_validator("num_cpus", mode="before")
    @classmethod
    def _has_a_core(cls, cores: Any) -> Any:
        """Give `mlbench run -c 1` a core: the command line asks for one less than it is told."""
        return 1 if cores == 0 and not isinstance(cores, bool) else cores


def fit(order: RunRequest, limits: Limits) -> tuple[RunRequest, str]:
    """Return a request of this client as the pool can run it, and how it was adapted.

    The defaults of its command line are three cores and MPI, which few installations have.
    """
    notes = []
    if order.num_cpus is not None and order.num_cpus > limits.cpus:
        notes.append(
            f"each worker has {limits.cpus:g} cores, the maximum here, not {order.num_cpus:g}"
        )
        order = replace(order, num_cpus=limits.cpus)
    task = order.task
    if task and order.backend_name == "mpi" and "mpi" not in task.backends_among(limits.backends):
        notes.append("the backend is gloo, because PyTorch has no MPI here")
        order = replace(order, backend="gloo")
    return order, "; ".join(notes)


def is_original(req: Request) -> bool:
    """Tell whether a request is of MLBench's original client.

    It does not name itself: it sends what the library requests sends when told nothing, and has no
    place for the token but the address. Whoever says what it accepts, as MLBench's documentation
    shows it, is answered as documented.
    """
    is_plain = (req.user_agent or "").startswith("python-requests/") and req.accept == "*/*"
    return is_plain and (req.auth or "").lower().startswith("basic ")


def listed(run: Run) -> OriginalRun:
    """Return a run as it is in the list for this client."""
    return OriginalRun(
        run.id,
        run.name,
        run.created_at,
        run.state.lower(),
        run.num_workers,
        run.job_id,
        run.job_metadata,
    )
