"""``/api/runs/``: submit, list, follow, stop and delete runs."""

from dataclasses import dataclass, replace

import falcon
from falcon import Request, Response

from mlbench.contract.names import RUN_STATES
from mlbench.contract.records import (
    Manifest,
    OriginalRun,
    Run,
    RunCounts,
    RunEvent,
    RunField,
    RunGroup,
)
from mlbench_master.http.bodies import read_body
from mlbench_master.http.original_requests import OriginalRunRequest, fit, is_original, listed
from mlbench_master.openapi.operation import flag, names, one_of, operation, parsed, text, whole
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
from mlbench_master.runs.run_query import ANY
from mlbench_master.runs.run_query import parse as parse_query
from mlbench_master.settings import InstallationLimits

_FROM_ID = whole("from_id", "Lowest run id to return.", 1)
_BEFORE = whole("before", "Return only runs with an id below this one.", 100)
_LIMIT = whole(
    "limit", "Maximum number of runs: the newest ones, or the first ones of `order`.", 50, least=1
)
# An empty state, as forms send, selects all runs.
_STATE = replace(
    one_of("state", ("", *RUN_STATES), "Return only runs in this state."),
    schema={"type": "string", "enum": [*RUN_STATES]},
)
_QUERY = replace(
    parsed(
        "query",
        "Search terms, all of which must match: conditions such as `exchange=topk`, "
        "`accuracy > 95` or `created>7d`, and words in the id, names, benchmark, command, set, "
        "swept values, state or tags. `a OR b` matches either term; `NOT a` negates a term.",
        parse_query,
        ANY,
        "benchmark=digits workers>=2 first",
    ),
    alias="q",
)
_ORDER = text(
    "order", "Field to sort by; prefix `-` for descending. Default: oldest first.", "-created"
)
_COLUMNS = names(
    "columns", "Comma-separated fields to include as `values` of each run.", "accuracy,duration"
)
_GROUP = replace(
    names(
        "group",
        "Comma-separated fields to group by. `set` also groups by the swept values and the number "
        "of workers.",
        "exchange,workers",
    ),
    required=True,
)
_MEANS = replace(_COLUMNS, description="Comma-separated fields to average in each group.")
_GROUP_ORDER = replace(
    _ORDER,
    description="Field, mean or number of `runs` to sort groups by; prefix `-` for descending. "
    "Default: the fields of `group`.",
    example="-runs",
)
_POD = text(
    "pod", "Return only runs whose latest attempt has a rank on this pod.", "local-mlbench-worker-0"
)
_KEEP_ARCHIVE = flag("keep_archive", "Keep the archive of the run.", default=False)


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
        parameters=(_FROM_ID, _BEFORE, _LIMIT, _STATE, _QUERY, _POD, _ORDER, _COLUMNS),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """List runs, oldest first unless `order` is given."""
        query = listing.RunQuery(
            from_id=_FROM_ID.read(req) or 0,
            before=_BEFORE.read(req),
            state=_STATE.read(req) or None,
            query=_QUERY.read(req),
            pod=_POD.read(req),
            limit=_LIMIT.read(req),
            order=_ORDER.read(req) or "",
            columns=_COLUMNS.read(req),
        )
        runs = listing.list_runs(query)
        resp.media = [listed(run) for run in runs] if is_original(req) else runs

    @operation("create_run", "The new run.", Run, body=RunRequest, form=True, errors=(409, 503))
    def on_post(self, req: Request, resp: Response) -> None:
        """Submit a run."""
        if is_original(req):
            request, adjustments = fit(read_body(req, OriginalRunRequest), self.limits)
        else:
            request, adjustments = read_body(req, RunRequest), ""
        run = lifecycle.create(request, self.limits, adjustments=adjustments)
        resp.media = presenters.describe(run)

    @operation("count_runs", "The counts.", RunCounts, parameters=(_QUERY,))
    def on_get_counts(self, req: Request, resp: Response) -> None:
        """Count all runs, and the matching runs in each state."""
        resp.media = listing.count_runs(_QUERY.read(req))

    @operation(
        "group_runs",
        f"The groups, at most {run_groups.MAX_GROUPS}.",
        list[RunGroup],
        parameters=(_GROUP, _STATE, _QUERY, _GROUP_ORDER, _MEANS),
    )
    def on_get_groups(self, req: Request, resp: Response) -> None:
        """Group matching runs by the values of fields, and average other fields."""
        query = listing.RunQuery(
            state=_STATE.read(req) or None,
            query=_QUERY.read(req),
            order=_GROUP_ORDER.read(req) or "",
            columns=_MEANS.read(req),
        )
        resp.media = run_groups.group_runs(query, _GROUP.read(req))

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
        changed = annotations.change(run_id, read_body(req, AnnotationsRequest))
        resp.media = listing.describe_all([changed])[0]

    @operation(
        "delete_run",
        "The run was deleted.",
        status=204,
        accepted="The run is active. The master stops the run, and deletes it after its end.",
        parameters=(_KEEP_ARCHIVE,),
        errors=(503,),
    )
    def on_delete_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete a run, its series and its archive. An active run is stopped first."""
        run, keep_archive = lifecycle.find(run_id), _KEEP_ARCHIVE.read(req)
        if keep_archive:
            annotations.keep(run, self.archives)
        if not lifecycle.delete(run, keep_archive=keep_archive):
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
        lifecycle.stop(run)
        resp.media = presenters.describe(lifecycle.find(run_id))

    @operation("get_events", "The events, in order of time.", list[RunEvent])
    def on_get_events(self, req: Request, resp: Response, run_id: int) -> None:
        """List the events of a run so far, in order of time."""
        resp.media = events_of(lifecycle.find(run_id))

    @operation("get_manifest", "The manifest.", Manifest)
    def on_get_manifest(self, req: Request, resp: Response, run_id: int) -> None:
        """Return the manifest of a run: request, settings, data, versions and machines."""
        resp.media = run_manifest.build(lifecycle.find(run_id))
