"""``/api/runs/{id}/faults``: failures that are injected by hand; and where agents report them."""

from dataclasses import dataclass
from typing import Annotated

from falcon import Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mlbench.contract.records import RunEvent
from mlbench_master import times
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_body
from mlbench_master.http.fields import NO_NUL, refuse_truth_value
from mlbench_master.openapi.operation import operation
from mlbench_master.runs import events, faults, life
from mlbench_master.settings import Limits

_Number = Annotated[int, Field(ge=0, le=2**31 - 1), BeforeValidator(refuse_truth_value)]
_Time = Annotated[float, Field(ge=0, le=times.LATEST_US // 10**6)]


class FaultRequest(BaseModel):
    """The body of ``POST /api/runs/{run_id}/faults/``."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    fault: str = Field(max_length=100, pattern=NO_NUL)
    """Such as `kill`, `stop:5s`, `slow:50%`, `slow:50%:10s` or `network:3s`."""
    rank: _Number = 0
    """The worker that it hits, by its rank among the workers."""


class FaultReport(BaseModel):
    """What became of a failure, as the agent reports that was to carry it out."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    at: Annotated[_Time, BeforeValidator(refuse_truth_value)]
    """Unix seconds, by the master's clock."""
    attempt: _Number
    problem: str = Field(default="", max_length=500, pattern=NO_NUL)
    """Why it could not be carried out; empty if it was."""


@dataclass(frozen=True)
class FaultsResource:
    """The failures of a run."""

    limits: Limits

    @operation(
        "inject_fault",
        "The event, which says what became of it once its agent has reported.",
        RunEvent,
        body=FaultRequest,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Have a failure hit a rank of a run that is going on, within a few seconds.

        409: the rank is not running, or MLBench has not started it. 400 too for what would hurt
        others than this run.
        """
        run = life.find(run_id)
        wanted = read_body(req, FaultRequest)
        in_cluster = self.limits.pool == "kubernetes"
        ordered = faults.order(run, wanted.rank, wanted.fault, in_cluster=in_cluster)
        resp.media = events.of_fault(ordered, run.attempt)


class FaultReportsResource:
    """``/api/workers/{pod}/runs/{run}/faults/{fault}``: an agent has carried out a failure."""

    access: Access = "agent"

    @operation("report_fault", "It is held.", status=204, body=FaultReport)
    def on_put(self, req: Request, resp: Response, pod: str, run_id: int, fault_id: int) -> None:
        """Store what became of a failure; the first report that comes counts.

        A pod speaks for itself alone: 403.
        """
        own = own_pod(req, pod)
        report = read_body(req, FaultReport)
        faults.note(own, run_id, fault_id, report.model_dump())
