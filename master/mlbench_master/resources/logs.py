"""``/api/runs/{id}/logs/``: the logs of ranks."""

from falcon import Request, Response

from mlbench.contract.records import LogPage, LogSearch
from mlbench_master.errors import BadFieldError
from mlbench_master.http.bodies import offer_file
from mlbench_master.openapi.operation import Parameter, one_of, operation, whole
from mlbench_master.reading import logs
from mlbench_master.resources.attempts import ATTEMPT, read_attempt
from mlbench_master.runs import lifecycle

MAX_SEARCH_LENGTH = 500
_RANK = whole("rank", "Rank whose log is returned. All processes of a worker share one log.", 0)
_STREAM = one_of("stream", ("stdout", "stderr"), "Output stream.", "stdout")
_OFFSET = whole("offset", "Start of the returned piece, in bytes.", 0)
_TAIL = whole("tail", "Return this many of the last lines. Ignores `offset`.")
_BEFORE = whole(
    "before",
    "Return the lines that end at this byte, at most 256 KiB, to page upwards. Ignores `offset` "
    "and `tail`.",
)
_SEARCH = Parameter(
    "search",
    {"type": "string", "minLength": 1, "maxLength": MAX_SEARCH_LENGTH},
    "Return lines from `offset` on that contain this text, ignoring case: at most 200 lines, from "
    "at most 32 MiB of the log. Ignores `tail` and `before`.",
    str,
    default=None,
)
_FORMAT = one_of(
    "format",
    ("json", "text"),
    "`json`: a piece of the log. `text`: the whole log as a file.",
    "json",
)


class LogsResource:
    """A rank's stdout or stderr."""

    @operation(
        "get_logs",
        "A piece of the log, or the lines that `search` matched.",
        LogPage | LogSearch,
        files={
            "text/plain; charset=utf-8": {"type": "string", "examples": ["epoch 1: loss 0.31\n"]}
        },
        parameters=(_RANK, _STREAM, ATTEMPT, _OFFSET, _TAIL, _BEFORE, _SEARCH, _FORMAT),
    )
    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Return a piece of a rank's log, or search the log.

        Without other parameters: the text from `offset` on. With `tail`: the last lines. With
        `before`: the lines that end there. With `search`: the matching lines from `offset` on. With
        `format=text`: the whole log.
        """
        run = lifecycle.find(run_id)
        rank = _RANK.read(req) or 0
        attempt = read_attempt(req, run)
        worker = lifecycle.worker_of(run, attempt, rank)
        if worker is None:
            raise BadFieldError(
                "rank", f"run {run_id} has ranks 0 to {run.world_size - 1} (got {rank})"
            )
        stream = _STREAM.read(req)
        log = logs.find(run, worker, stream, attempt)
        offset = _OFFSET.read(req) or 0
        tail, before = _TAIL.read(req), _BEFORE.read(req)
        search = _SEARCH.read(req)
        if search is not None and not 0 < len(search) <= MAX_SEARCH_LENGTH:
            raise BadFieldError(
                "search", f"must have 1 to {MAX_SEARCH_LENGTH} characters (got {len(search)})"
            )
        if _FORMAT.read(req) == "text":
            resp.content_type = "text/plain; charset=utf-8"
            offer_file(resp, f"run-{run.id}-rank-{rank}-{stream}.txt")
            resp.stream, resp.content_length = logs.whole(log), log.length
        elif search is not None:
            resp.media = logs.search(log, search, offset)
        elif before is not None:
            resp.media = logs.before(log, before)
        elif tail is not None:
            resp.media = logs.tail(log, tail)
        else:
            resp.media = logs.page(log, offset)
