"""``/api/runs/``: submit, list, follow, stop and delete runs."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.contract.records import (
    Manifest,
    OriginalRun,
    Run,
    RunCounts,
    RunEvent,
    RunField,
    RunGroup,
)
from mlbench_master.http.access import check_owner
from mlbench_master.http.bodies import read_body
from mlbench_master.http.original_requests import OriginalRunRequest, fit, is_original, listed
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import (
    annotations,
    lifecycle,
    listing,
    presenters,
    run_columns,
    run_groups,
    run_manifest,
)
from mlbench_master.runs.annotations import AnnotationsRequest
from mlbench_master.runs.requests import RunRequest
from mlbench_master.runs.run_events import events_of
from mlbench_master.settings import InstallationLimits


@dataclass(frozen=True)
class DeleteQuery:
    """The parameters of ``DELETE /api/runs/{run_id}/``."""

    keep_archive: bool = False
    """Keep the archive of the run."""


@dataclass(frozen=True)
class RunsResource:
    """Runs, their events and their manifests."""

    limits: InstallationLimits
    archives: ArchiveStore

    @operation(
        "list_runs",
        "The runs. MLBench's original client, which sends the `User-Agent` of Python's `requests`, "
        "`Accept: */*` and its token by HTTP Basic, gets a shorter form.",
        list[Run | OriginalRun],
    )
    def on_get(self, req: Request, resp: Response, query: listing.RunQuery) -> None:
        """List runs, oldest first unless `order` is given."""
        runs = listing.list_runs(query)
        resp.media = [listed(run) for run in runs] if is_original(req) else runs

    @operation("create_run", "The new run.", Run, body=RunRequest, form=True, errors=(409, 503))
    def on_post(self, req: Request, resp: Response) -> None:
        """Submit a run."""
        if is_original(req):
            request, adjustments = fit(read_body(req, OriginalRunRequest), self.limits)
        else:
            request, adjustments = read_body(req, RunRequest), ""
        user = req.context.caller.user
        run = lifecycle.create(request, self.limits, user=user, adjustments=adjustments)
        resp.media = presenters.describe(run)

    @operation("count_runs", "The counts.", RunCounts)
    def on_get_counts(self, req: Request, resp: Response, query: listing.CountQuery) -> None:
        """Count all runs, and the matching runs in each state."""
        resp.media = listing.count_runs(query.query)

    @operation("group_runs", f"The groups, at most {run_groups.MAX_GROUPS}.", list[RunGroup])
    def on_get_groups(self, req: Request, resp: Response, query: run_groups.GroupQuery) -> None:
        """Group matching runs by the values of fields, and average other fields."""
        resp.media = run_groups.group_runs(query)

    @operation("list_run_fields", "The fields, without settings of your own code.", list[RunField])
    def on_get_fields(self, req: Request, resp: Response) -> None:
        """List the fields by which runs can be searched, sorted and grouped."""
        resp.media = run_columns.all_fields()

    @operation("get_run", "The run.", Run)
    def on_get_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Return a run."""
        resp.media = listing.describe_all([lifecycle.find(run_id)])[0]

    @operation("edit_run", "The changed run.", Run, body=AnnotationsRequest)
    def on_patch_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Change the title, the tags or the note of a run, also after its end.

        These annotations are part of neither the archive nor the result.
        """
        check_owner(req, lifecycle.find(run_id).user, f"run {run_id}")
        changed = annotations.change(run_id, read_body(req, AnnotationsRequest))
        resp.media = listing.describe_all([changed])[0]

    @operation(
        "delete_run",
        "The run was deleted.",
        status=204,
        accepted="The run is active. The master stops the run, and deletes it after its end.",
        errors=(503,),
    )
    def on_delete_one(self, req: Request, resp: Response, query: DeleteQuery, run_id: int) -> None:
        """Delete a run, its series and its archive. An active run is stopped first."""
        run = lifecycle.find(run_id)
        check_owner(req, run.user, f"run {run_id}")
        if query.keep_archive:
            annotations.keep(run, self.archives)
        if not lifecycle.delete(run, req.context.caller.user, keep_archive=query.keep_archive):
            resp.status = falcon.HTTP_ACCEPTED
        if is_original(req):
            # The documentation of the original client calls json() on this response.
            resp.media = {}
            if resp.status != falcon.HTTP_ACCEPTED:
                resp.status = falcon.HTTP_OK

    @operation("stop_run", "The run, with `stop_requested` set.", Run, errors=(409,))
    def on_post_stop(self, req: Request, resp: Response, run_id: int) -> None:
        """Request the stop of a run."""
        run = lifecycle.find(run_id)
        lifecycle.check_own(run)
        check_owner(req, run.user, f"run {run_id}")
        lifecycle.stop(run, req.context.caller.user)
        resp.media = presenters.describe(lifecycle.find(run_id))

    @operation("get_events", "The events, in order of time.", list[RunEvent])
    def on_get_events(self, req: Request, resp: Response, run_id: int) -> None:
        """List the events of a run so far, in order of time."""
        resp.media = events_of(lifecycle.find(run_id))

    @operation("get_manifest", "The manifest.", Manifest)
    def on_get_manifest(self, req: Request, resp: Response, run_id: int) -> None:
        """Return the manifest of a run: request, settings, data, versions and machines."""
        resp.media = run_manifest.build(lifecycle.find(run_id))
