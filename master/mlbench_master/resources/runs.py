"""``/api/runs/``: order a run, see how it goes, stop it, delete it."""

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
from mlbench_master.http.original import OriginalRunRequest, fit, is_original, listed
from mlbench_master.openapi.operation import flag, names, one_of, operation, parsed, text, whole
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import columns, describing, groups, life, listing, manifest, words
from mlbench_master.runs.events import events_of
from mlbench_master.runs.query import ANY
from mlbench_master.runs.query import parse as parse_query
from mlbench_master.runs.requests import RunRequest
from mlbench_master.runs.words import WordsRequest
from mlbench_master.settings import Limits

_FROM_ID = whole("from_id", "Only runs from this id on.", 1)
_BEFORE = whole("before", "Only runs with ids below this one.", 100)
_LIMIT = whole("limit", "Only the newest so many of these.", 50, least=1)
# An empty one is none.
_STATE = replace(
    one_of("state", ("", *RUN_STATES), "Only runs in this state."),
    schema={"type": "string", "enum": [*RUN_STATES]},
)
_QUERY = replace(
    parsed(
        "query",
        "Only runs of which each term holds, such as `exchange=topk`, `accuracy > 95` or "
        "`created>7d`, and that have each other word in their id, names, benchmark, command, set, "
        "swept values, state or tags. `a OR b` needs one of the two, and `NOT a` the opposite.",
        parse_query,
        ANY,
        "benchmark=digits workers>=2 first",
    ),
    alias="q",
)
_ORDER = text(
    "order", "The field by which runs are sorted, `-` before it for the largest first.", "-created"
)
_COLUMNS = names(
    "columns",
    "Fields whose values are wanted as `values` of each run, with commas between them.",
    "accuracy,duration",
)
_GROUP = replace(
    names(
        "group",
        "Fields by which runs are grouped, with commas between them; `set` also groups by what a "
        "set sweeps.",
        "exchange,workers",
    ),
    required=True,
)
_MEANS = replace(_COLUMNS, description="Fields whose means over each group are wanted.")
_GROUP_ORDER = replace(
    _ORDER,
    description="The field, mean or number of `runs` by which groups are sorted, `-` before it for "
    "the largest first; by default what they are grouped by.",
    example="-runs",
)
_POD = text(
    "pod", "Only runs whose latest attempt has a rank on this pod.", "local-mlbench-worker-0"
)
_KEEP_ARCHIVE = flag("keep_archive", "Whether its archive stays where it is.", default=False)


@dataclass(frozen=True)
class RunsResource:
    """All runs, and all that concerns one of them alone."""

    limits: Limits
    archives: ArchiveStore

    @operation(
        "list_runs",
        "All runs, the oldest first; in short for MLBench's original client, which sends the "
        "`User-Agent` of Python's `requests`, `Accept: */*`, and its token by HTTP Basic.",
        list[Run | OriginalRun],
        parameters=(_FROM_ID, _BEFORE, _LIMIT, _STATE, _QUERY, _POD, _ORDER, _COLUMNS),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all runs that match, the oldest first, or with the newest of them."""
        wanted = listing.Wanted(
            from_id=_FROM_ID.read(req) or 0,
            before=_BEFORE.read(req),
            state=_STATE.read(req) or None,
            query=_QUERY.read(req),
            pod=_POD.read(req),
            limit=_LIMIT.read(req),
            order=_ORDER.read(req) or "",
            columns=_COLUMNS.read(req),
        )
        runs = listing.list_runs(wanted)
        resp.media = [listed(run) for run in runs] if is_original(req) else runs

    @operation(
        "create_run",
        "The new run, which the controller starts.",
        Run,
        body=RunRequest,
        form=True,
        errors=(409, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Order a run."""
        if is_original(req):
            order, adjustments = fit(read_body(req, OriginalRunRequest), self.limits)
        else:
            order, adjustments = read_body(req, RunRequest), ""
        created = life.create(order, self.limits, adjustments=adjustments)
        resp.media = describing.describe(created)

    @operation("count_runs", "The counts.", RunCounts, parameters=(_QUERY,))
    def on_get_counts(self, req: Request, resp: Response) -> None:
        """Answer with the number of runs, and of those that match in each state."""
        resp.media = listing.count_runs(_QUERY.read(req))

    @operation(
        "group_runs",
        f"The groups, at most {groups.MOST_GROUPS} of them.",
        list[RunGroup],
        parameters=(_GROUP, _STATE, _QUERY, _GROUP_ORDER, _MEANS),
    )
    def on_get_groups(self, req: Request, resp: Response) -> None:
        """Answer with all runs that match, in groups with the same values of some fields."""
        wanted = listing.Wanted(
            state=_STATE.read(req) or None,
            query=_QUERY.read(req),
            order=_GROUP_ORDER.read(req) or "",
            columns=_MEANS.read(req),
        )
        resp.media = groups.group_runs(wanted, _GROUP.read(req))

    @operation(
        "list_run_fields", "The fields, without settings that only own code has.", list[RunField]
    )
    def on_get_fields(self, req: Request, resp: Response) -> None:
        """Answer with the fields by which runs are searched, sorted and grouped."""
        resp.media = columns.all_fields()

    @operation("get_run", "The run.", Run)
    def on_get_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run."""
        resp.media = listing.describe_all([life.find(run_id)])[0]

    @operation("edit_run", "The run, as it is called now.", Run, body=WordsRequest)
    def on_patch_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Change the title, the tags or the note of the run, also after its end.

        They are no part of the evidence: its archive and its result stay as they are.
        """
        changed = words.change(run_id, read_body(req, WordsRequest))
        resp.media = listing.describe_all([changed])[0]

    @operation(
        "delete_run",
        "The run is deleted.",
        status=204,
        accepted="The run is active: it is stopped, and deleted once it has ended.",
        parameters=(_KEEP_ARCHIVE,),
        errors=(503,),
    )
    def on_delete_one(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete the run, its series and its archive; one that is active is stopped first."""
        found, keep_archive = life.find(run_id), _KEEP_ARCHIVE.read(req)
        if keep_archive:
            words.keep(found, self.archives)
        if not life.delete(found, keep_archive=keep_archive):
            resp.status = falcon.HTTP_ACCEPTED
        if is_original(req):
            # Its documentation has users call json() on the answer.
            resp.media = {}
            if resp.status != falcon.HTTP_ACCEPTED:
                resp.status = falcon.HTTP_OK

    @operation("stop_run", "The run, whose `stop_requested` is now true.", Run, errors=(409,))
    def on_post_stop(self, req: Request, resp: Response, run_id: int) -> None:
        """Ask for the run to be stopped, and answer with the run."""
        found = life.find(run_id)
        life.check_own(found)
        life.stop(found)
        resp.media = describing.describe(life.find(run_id))

    @operation("get_events", "What has happened by now, in order of time.", list[RunEvent])
    def on_get_events(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what has happened to the run by now, in order of time."""
        resp.media = events_of(life.find(run_id))

    @operation("get_manifest", "The manifest.", Manifest)
    def on_get_manifest(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with what the run's result depends on: order, settings, data, machines."""
        resp.media = manifest.build(life.find(run_id))
