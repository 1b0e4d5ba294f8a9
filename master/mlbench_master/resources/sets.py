"""``/api/sets/``: register, stop and resume benchmark sets, and read their ledgers."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench.contract.records import RunSet
from mlbench.contract.sweeps import SetAnalysis
from mlbench_master.http.access import check_owner
from mlbench_master.http.bodies import read_body
from mlbench_master.openapi.operation import operation
from mlbench_master.runs import benchmark_sets
from mlbench_master.runs.requests import SetRequest
from mlbench_master.settings import InstallationLimits


@dataclass(frozen=True)
class SetsResource:
    """Benchmark sets and their runs."""

    limits: InstallationLimits

    @operation("list_sets", "All benchmark sets with their ledgers, oldest first.", list[RunSet])
    def on_get(self, req: Request, resp: Response) -> None:
        """List benchmark sets, oldest first."""
        resp.media = benchmark_sets.describe_all()

    @operation(
        "create_set",
        "The benchmark set, whose runs the master submits. The same plan again is the same set.",
        RunSet,
        body=SetRequest,
        errors=(409,),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Register a benchmark set: its plan and seeds, before the first run."""
        resp.media = benchmark_sets.describe(
            benchmark_sets.register(
                read_body(req, SetRequest), self.limits, req.context.caller.user
            )
        )

    @operation("get_set", "The plan of the benchmark set and its ledger.", RunSet)
    def on_get_one(self, req: Request, resp: Response, name: str) -> None:
        """Return a benchmark set with its plan and its ledger."""
        resp.media = benchmark_sets.describe(benchmark_sets.find(name))

    @operation(
        "analyze_set",
        "Results over the swept values, importance of each option, and remaining slots.",
        SetAnalysis,
    )
    def on_get_analysis(self, req: Request, resp: Response, name: str) -> None:
        """Return the results of a benchmark set so far, and an estimate of the remaining time."""
        resp.media = benchmark_sets.analyze(benchmark_sets.find(name))

    @operation("stop_set", "The stopped benchmark set.", RunSet)
    def on_post_stop(self, req: Request, resp: Response, name: str) -> None:
        """Stop a benchmark set: its active run is stopped, and no further run is submitted."""
        check_owner(req, benchmark_sets.find(name).user, f"set {name}")
        resp.media = benchmark_sets.describe(benchmark_sets.stop(name, req.context.caller.user))

    @operation("resume_set", "The benchmark set, with the slots that get a run.", RunSet)
    def on_post_resume(self, req: Request, resp: Response, name: str) -> None:
        """Resume a benchmark set: each open slot gets a run, also after runs that failed."""
        check_owner(req, benchmark_sets.find(name).user, f"set {name}")
        resp.media = benchmark_sets.describe(benchmark_sets.resume(name))
