"""``/api/runs/{id}/logs/``: what the ranks of a run write."""

from falcon import Request, Response

from mlbench.records import LogPage, LogSearch
from mlbench_master.errors import BadFieldError
from mlbench_master.http import choice, whole_number
from mlbench_master.models import Run
from mlbench_master.openapi.operation import ABOVE_0, WHOLE, Parameter, operation
from mlbench_master.reading import logs
from mlbench_master.runs import life

MAX_SEARCH_LENGTH = 500


_PARAMETERS = (
    Parameter("rank", WHOLE, "Whose log: the processes of a worker have one together.", example=0),
    Parameter(
        "stream",
        {"type": "string", "enum": ["stdout", "stderr"], "default": "stdout"},
        "Which of the two.",
        example="stdout",
    ),
    Parameter("attempt", ABOVE_0, "Of which attempt; by default the latest."),
    Parameter("offset", WHOLE, "Where to begin, in bytes.", example=0),
    Parameter("tail", WHOLE, "The last lines, this many; `offset` is then unused."),
    Parameter(
        "before",
        WHOLE,
        "The lines that end at this byte, at most 256 KiB of them, to read upwards; `offset` and "
        "`tail` are then unused.",
    ),
    Parameter(
        "search",
        {"type": "string", "minLength": 1, "maxLength": MAX_SEARCH_LENGTH},
        "The lines from `offset` on that have this text, whatever the case of its letters: at most "
        "200, in at most 32 MiB; `tail` and `before` are then unused.",
    ),
    Parameter(
        "format",
        {"type": "string", "enum": ["json", "text"], "default": "json"},
        "A piece as JSON, or the whole log as a text file.",
        example="json",
    ),
)


class LogsResource:
    """A rank's stdout or stderr."""

    @operation(
        "get_logs",
        "A piece of the log, or the lines that `search` has found.",
        LogPage | LogSearch,
        files={
            "text/plain; charset=utf-8": {"type": "string", "examples": ["epoch 1: loss 0.31\n"]}
        },
        parameters=_PARAMETERS,
        errors=(404,),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the text from ``offset`` on, or with another piece of a rank's log.

        That is the last ``tail`` lines, those that end at ``before``, or what ``search`` finds from
        ``offset`` on; as ``text``, the whole.
        """
        run = life.find(run_id)
        rank = whole_number(req, "rank") or 0
        attempt = _attempt(req, run)
        worker = life.worker_of(run, attempt, rank)
        if worker is None:
            raise BadFieldError("rank", f"run {run_id} has ranks 0 to {run.world_size - 1}")
        stream = choice(req, "stream", ("stdout", "stderr"), default="stdout")
        log = logs.find(run, worker, stream, attempt)
        offset = whole_number(req, "offset") or 0
        tail, before = whole_number(req, "tail"), whole_number(req, "before")
        search = req.get_param("search")
        if search is not None and not 0 < len(search) <= MAX_SEARCH_LENGTH:
            raise BadFieldError("search", f"1 to {MAX_SEARCH_LENGTH} characters")
        if choice(req, "format", ("json", "text"), default="json") == "text":
            resp.content_type = "text/plain; charset=utf-8"
            resp.downloadable_as = f"run-{run.id}-rank-{rank}-{stream}.txt"
            resp.stream, resp.content_length = logs.whole(log), log.length
        elif search is not None:
            resp.media = logs.search(log, search, offset)
        elif before is not None:
            resp.media = logs.before(log, before)
        elif tail is not None:
            resp.media = logs.tail(log, tail)
        else:
            resp.media = logs.page(log, offset)


def _attempt(req: Request, run: Run) -> int:
    wanted = whole_number(req, "attempt")
    if wanted is None:
        return run.attempt
    if not 0 < wanted <= run.attempt:
        there = f"attempts 1 to {run.attempt}" if run.attempt else "not begun its first attempt"
        raise BadFieldError("attempt", f"run {run.id} has {there}")
    return wanted
