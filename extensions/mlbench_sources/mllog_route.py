"""The route of a run as MLPerf's log, and its link on the page of the run."""

from dataclasses import dataclass

from falcon import Request, Response

from mlbench_master.http.bodies import offer_file
from mlbench_master.openapi.operation import Route, operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_query import inputs_of
from mlbench_master.runs import lifecycle
from mlbench_master.services import Services
from mlbench_sources import mllog

_MLLOG = (
    ':::MLLOG {"namespace": "", "time_ms": 1772356891000, "event_type": "POINT_IN_TIME", '
    '"key": "global_batch_size", "value": 128, "metadata": {}}\n'
)


@dataclass(frozen=True)
class MLLogResource:
    """Runs in the format of MLPerf's logging."""

    reader: SeriesReader

    @operation(
        "get_mllog",
        "The lines of the run, in order of time.",
        files={"text/plain; charset=utf-8": {"type": "string", "examples": [_MLLOG]}},
        errors=(502, 503),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Return a run so far as `:::MLLOG` lines, for MLPerf's compliance checker."""
        run = lifecycle.find(run_id)
        resp.text = "".join(mllog.write(*inputs_of(self.reader, run)))
        resp.content_type = "text/plain; charset=utf-8"
        offer_file(resp, f"metrics_{run.name}.mllog")


def routes(services: Services) -> list[Route]:
    """Return the route of each run's log."""
    return [Route("/api/runs/{run_id:int}/mllog", MLLogResource(services.reader))]
