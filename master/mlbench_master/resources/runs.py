"""``/api/runs/``: order a run, see how it goes, stop it, delete it."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.names import RUN_STATES
from mlbench.records import Manifest, OriginalRun, Run, RunCounts, RunEvent
from mlbench_master.errors import BadFieldError
from mlbench_master.http import choice, read_body, text, whole_number
from mlbench_master.openapi.operation import ABOVE_0, WHOLE, Parameter, operation
from mlbench_master.original import is_original, listed, with_its_name
from mlbench_master.runs import life, listing, manifest
from mlbench_master.runs.events import events_of
from mlbench_master.runs.requests import RunRequest
from mlbench_master.settings import Limits

_MOST_WORDS = 50
_WORDS = Parameter(
    "q",
    {"type": "string"},
    "Only runs that have each of these words in their id, name, benchmark, command, set, swept "
    "values or state.",
    example="digits topk",
)
_KEEP_ARCHIVE = Parameter(
    "keep_archive", {"type": "boolean"}, "Whether its archive stays where it is.", example=True
)


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
            Parameter("before", WHOLE, "Only runs with ids below this one.", example=100),
            Parameter("limit", ABOVE_0, "Only the newest so many of these.", example=50),
            Parameter(
                "state", {"type": "string", "enum": [*RUN_STATES]}, "Only runs in this state."
            ),
            _WORDS,
            Parameter(
                "pod",
                {"type": "string"},
                "Only runs whose latest attempt has a rank on this pod.",
                example="local-mlbench-worker-0",
            ),
        ),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all runs that match, the oldest first, or with the newest of them."""
        wanted = listing.Wanted(
            from_id=whole_number(req, "from_id") or 0,
            before=whole_number(req, "before"),
            state=choice(req, "state", ("", *RUN_STATES), "") or None,
            words=_read_words(req),
            pod=text(req, "pod"),
            limit=whole_number(req, "limit", least=1),
        )
        found = listing.list_runs(wanted)
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


class RunCountsResource:
    """``…/counts/``: how many runs there are."""

    @operation("count_runs", "The counts.", RunCounts, parameters=(_WORDS,))
    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with the number of runs, and of those that match in each state."""
        resp.media = listing.count_runs(_read_words(req))


def _read_words(req: Request) -> list[str]:
    words = (text(req, "q") or "").split()
    if len(words) > _MOST_WORDS:
        raise BadFieldError("q", f"at most {_MOST_WORDS} words (not {len(words)})")
    return words


class RunResource:
    """One run."""

    @operation("get_run", "The run.", Run, errors=(404,))
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run."""
        resp.media = listing.describe_all([life.find(run_id)])[0]

    @operation(
        "delete_run",
        "The run is deleted.",
        status=204,
        accepted="The run is active: it is stopped, and deleted once it has ended.",
        parameters=(_KEEP_ARCHIVE,),
        errors=(404,),
    )
    def on_delete(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete the run, its series and its archive; one that is active is stopped first."""
        keep = choice(req, "keep_archive", ("false", "true"), "false") == "true"
        is_gone = life.delete(life.find(run_id), keep_archive=keep)
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
