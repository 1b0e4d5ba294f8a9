"""``/api/runs/``: order a run, see how it goes, stop it, delete it."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.records import Manifest, OriginalRun, Run, RunEvent
from mlbench_master.http import read_body, whole_number
from mlbench_master.openapi.operation import WHOLE, Parameter, operation
from mlbench_master.original import is_original, listed, with_its_name
from mlbench_master.runs import life, manifest
from mlbench_master.runs.events import events_of
from mlbench_master.runs.requests import RunRequest
from mlbench_master.settings import Limits


@dataclass(frozen=True)
class RunsResource:
    """All runs."""

    limits: Limits

    @operation(
        "list_runs",
        "All runs, the oldest first; in short for MLBench's original client, which sends the "
        "`User-Agent` of Python's `requests`, `Accept: */*`, and its token by HTTP Basic.",
        list[Run | OriginalRun],
        parameters=(
            Parameter("from_id", WHOLE, "Only runs from this id on.", example=1),
            Parameter(
                "pod",
                {"type": "string"},
                "Only runs whose latest attempt has a rank on this pod.",
                example="local-mlbench-worker-0",
            ),
        ),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all runs, the oldest first, or with those from an id on, or of a pod."""
        first_id = whole_number(req, "from_id") or 0
        found = life.describe_from(first_id, pod=req.get_param("pod"))
        resp.media = [listed(run) for run in found] if is_original(req) else found

    @operation(
        "create_run",
        "The new run, which the controller starts.",
        Run,
        body=RunRequest,
        form=RunRequest,
        errors=(409, 413),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Order a run."""
        created = life.describe(life.create(read_body(req, RunRequest), self.limits))
        resp.media = with_its_name(created) if is_original(req) else created


class RunResource:
    """One run."""

    @operation("get_run", "The run.", Run, errors=(404,))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run."""
        resp.media = life.describe(life.find(run_id))

    @operation(
        "delete_run",
        "The run is deleted.",
        status=204,
        accepted="The run is active: it is stopped, and deleted once it has ended.",
        errors=(404,),
    )
    def on_delete(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete the run; one that is active is stopped first."""
        is_gone = life.delete(life.find(run_id))
        resp.status = falcon.HTTP_NO_CONTENT if is_gone else falcon.HTTP_ACCEPTED


class RunStopResource:
    """``…/stop/``: the request that a run stops."""

    @operation("stop_run", "The run, whose `stop_requested` is now true.", Run, errors=(404, 409))
    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Ask for the run to be stopped, and answer with the run."""
        found = life.find(run_id)
        life.check_own(found)
        life.stop(found)
        resp.media = life.describe(life.find(run_id))


class EventsResource:
    """``…/events/``: what happened to a run."""

    @operation(
        "get_events",
        "What has happened by now, in order of time.",
        list[RunEvent],
        errors=(404,),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what has happened to the run by now, in order of time."""
        resp.media = events_of(life.find(run_id))


class ManifestResource:
    """``…/manifest/``: what a run's result depends on."""

    @operation("get_manifest", "The manifest.", Manifest, errors=(404,))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what the run's result depends on: order, settings, data, machines."""
        resp.media = manifest.build(life.find(run_id))
