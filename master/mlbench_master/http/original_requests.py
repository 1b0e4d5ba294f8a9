"""MLBench's original client, mlbench-core 3.0.0: detection, and its own requests and responses.

The command line of this client prints each field of the list of runs as a column, and selects runs
in the state "finished".
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from falcon import Request

from mlbench.contract.fields import Before
from mlbench.contract.records import OriginalRun, Run
from mlbench.contract.runspec import Cores
from mlbench_master.runs.requests import RunRequest
from mlbench_master.settings import InstallationLimits


def _use_a_core(cores: Any) -> Any:
    """Use at least one core: for `mlbench run -c 1`, the client requests one core less."""
    return 1 if cores in (0, "0") and not isinstance(cores, bool) else cores


@dataclass(frozen=True, kw_only=True)
class OriginalRunRequest(RunRequest):
    """The body of ``POST /api/runs/`` from this client."""

    num_cpus: Annotated[Cores, Before(_use_a_core)] = None


def fit(order: RunRequest, limits: InstallationLimits) -> tuple[RunRequest, str]:
    """Adapt a request of this client to the pool, and return it with notes about the changes.

    The defaults of the command line are three cores and MPI, which few installations have.
    """
    notes = []
    if order.num_cpus is not None and order.num_cpus > limits.cpus:
        notes.append(
            f"each worker has {limits.cpus:g} cores, the maximum here, not {order.num_cpus:g}"
        )
        order = replace(order, num_cpus=float(limits.cpus))
    task = order.task
    if task and order.backend_name == "mpi" and "mpi" not in task.backends_among(limits.backends):
        notes.append("the backend is gloo, because PyTorch has no MPI here")
        order = replace(order, backend="gloo")
    return order, "; ".join(notes)


def is_original(req: Request) -> bool:
    """Return whether a request comes from MLBench's original client.

    The client sends the default headers of the library ``requests``, and the token in the URL.
    Requests with an explicit Accept header, as in the documentation, get the documented responses.
    """
    is_plain = (req.user_agent or "").startswith("python-requests/") and req.accept == "*/*"
    return is_plain and (req.auth or "").lower().startswith("basic ")


def listed(run: Run) -> OriginalRun:
    """Return a run in the form of the list for this client."""
    return OriginalRun(
        run.id,
        run.name,
        run.created_at,
        run.state.lower(),
        run.num_workers,
        run.job_id,
        run.job_metadata,
    )
