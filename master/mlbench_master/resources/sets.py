"""``/api/sets/``: register benchmark sets, order their runs, read their ledgers."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.contract.records import Run, RunSet
from mlbench.contract.sweeps import SetAnalysis
from mlbench_master.http.bodies import read_body
from mlbench_master.openapi.operation import operation
from mlbench_master.runs import describing, sets
from mlbench_master.runs.requests import NextRunRequest, SetRequest
from mlbench_master.settings import Limits


@dataclass(frozen=True)
class SetsResource:
    """All sets, and the runs of one."""

    limits: Limits

    @operation("list_sets", "All sets with their ledgers, the oldest first.", list[RunSet])
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all sets, the oldest first."""
        resp.media = sets.describe_all()

    @operation(
        "create_set",
        "The set, whose runs can now be ordered; the same registered again is the same set.",
        RunSet,
        body=SetRequest,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Register what is to be run, before any of it is."""
        resp.media = sets.describe(sets.register(read_body(req, SetRequest), self.limits))

    @operation("get_set", "What was registered, and what became of it.", RunSet)
    def on_get_one(self, req: Request, resp: Response, name: str) -> None:
        """Answer with the plan of the set and its ledger."""
        resp.media = sets.describe(sets.find(name))

    @operation(
        "analyze_set",
        "Its runs that count over what it sweeps, what of that matters most, and what is left.",
        SetAnalysis,
    )
    def on_get_analysis(self, req: Request, resp: Response, name: str) -> None:
        """Answer with what the set has shown so far, and how long the rest takes."""
        resp.media = sets.analyze(sets.find(name))

    @operation(
        "create_set_run",
        "The new run, as the set has it registered for the place.",
        Run,
        body=NextRunRequest,
        errors=(409, 503),
    )
    def on_post_runs(self, req: Request, resp: Response, name: str) -> None:
        """Order the run of a place."""
        run = sets.order_run(name, read_body(req, NextRunRequest), self.limits)
        resp.media = describing.describe(run)
