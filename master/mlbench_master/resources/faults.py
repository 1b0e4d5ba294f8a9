"""``/api/runs/{id}/faults``: manual fault injection, and the reports of agents."""

from dataclasses import asdict, dataclass
from typing import Annotated

from falcon import Request, Response

from mlbench.contract.fields import NO_NUL, Field
from mlbench.contract.limits import MAX_ERROR_LENGTH
from mlbench.contract.records import RunEvent
from mlbench_master import timestamps
from mlbench_master.http.access import Access, check_owner, own_pod
from mlbench_master.http.bodies import read_body
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Number
from mlbench_master.runs import lifecycle, run_events, run_faults
from mlbench_master.settings import InstallationLimits


@dataclass(frozen=True, kw_only=True)
class FaultRequest:
    """The body of ``POST /api/runs/{run_id}/faults/``."""

    fault: Annotated[str, Field(max_length=100, pattern=NO_NUL)]
    """Fault to inject, e.g. `kill`, `stop:5s`, `slow:50%`, `slow:50%:10s` or `network:3s`."""
    rank: Number = 0
    """Worker to inject the fault into, by its rank among the workers."""


@dataclass(frozen=True, kw_only=True)
class FaultReport:
    """The outcome of a fault, as its agent reports it."""

    at: Annotated[float, Field(ge=0, le=timestamps.LATEST_US // 10**6)]
    """Time of the injection in Unix seconds, by the master's clock."""
    attempt: Number
    """Attempt of the run."""
    problem: Annotated[str, Field(max_length=MAX_ERROR_LENGTH, pattern=NO_NUL)] = ""
    """Why the fault was not injected; empty if it was."""


@dataclass(frozen=True)
class FaultsResource:
    """The injected faults of a run."""

    limits: InstallationLimits

    @operation(
        "inject_fault",
        "The event of the fault. Its text has the outcome once the agent has reported.",
        RunEvent,
        body=FaultRequest,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Inject a fault into a rank of an active run, within a few seconds.

        400: the fault would also affect other runs. 409: the rank is not running, or MLBench did
        not start its process.
        """
        run = lifecycle.find(run_id)
        check_owner(req, run.user, f"run {run_id}")
        request = read_body(req, FaultRequest)
        in_cluster = self.limits.pool == "kubernetes"
        fault = run_faults.order(run, request.rank, request.fault, in_cluster=in_cluster)
        resp.media = run_events.of_fault(fault, run.attempt)


class FaultReportsResource:
    """``/api/workers/{pod}/runs/{run}/faults/{fault}``: an agent's report of a fault."""

    access: Access = "agent"

    @operation("report_fault", "The report is stored.", status=204, body=FaultReport)
    def on_put(self, req: Request, resp: Response, pod: str, run_id: int, fault_id: int) -> None:
        """Store the outcome of a fault; only the first report counts.

        403: the token belongs to another pod.
        """
        own = own_pod(req, pod)
        report = read_body(req, FaultReport)
        run_faults.note(own, run_id, fault_id, asdict(report))
