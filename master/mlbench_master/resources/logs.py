"""``/api/runs/{id}/logs/``: the logs of ranks."""

from dataclasses import dataclass
from typing import Annotated, Literal

from falcon import Request, Response

from mlbench.contract.fields import Field
from mlbench.contract.records import LogPage, LogSearch
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.http.bodies import offer_file
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Whole
from mlbench_master.reading import logs
from mlbench_master.runs import lifecycle


@dataclass(frozen=True)
class AttemptQuery:
    """The parameters of a request about an attempt of a run."""

    attempt: Whole | None = None
    """Attempt of the run. Default: the latest."""

    def attempt_of(self, run: Run) -> int:
        """Return the attempt; raise BadFieldError if the run does not have it."""
        if self.attempt is None:
            return run.attempt
        if not 0 < self.attempt <= run.attempt:
            attempts = f"attempts 1 to {run.attempt}" if run.attempt else "not started any attempt"
            raise BadFieldError("attempt", f"run {run.id} has {attempts} (got {self.attempt})")
        return self.attempt


@dataclass(frozen=True)
class LogQuery(AttemptQuery):
    """The parameters of ``GET /api/runs/{run_id}/logs/``."""

    rank: Annotated[Whole, Field(example=0)] = 0
    """Rank whose log is returned. All processes of a worker share one log."""
    stream: Literal["stdout", "stderr"] = "stdout"
    """Output stream."""
    offset: Annotated[Whole, Field(example=0)] = 0
    """Start of the returned piece, in bytes."""
    tail: Whole | None = None
    """Return this many of the last lines. Ignores `offset`."""
    before: Whole | None = None
    """Return the lines that end at this byte, at most 256 KiB, to page upwards. Ignores `offset`
    and `tail`."""
    search: Annotated[str | None, Field(min_length=1, max_length=500)] = None
    """Return lines from `offset` on that contain this text, ignoring case: at most 200 lines, from
    at most 32 MiB of the log. Ignores `tail` and `before`."""
    format: Literal["json", "text"] = "json"
    """`json`: a piece of the log. `text`: the whole log as a file."""


class LogsResource:
    """A rank's stdout or stderr."""

    @operation(
        "get_logs",
        "A piece of the log, or the lines that `search` matched.",
        LogPage | LogSearch,
        files={
            "text/plain; charset=utf-8": {"type": "string", "examples": ["epoch 1: loss 0.31\n"]}
        },
    )
    def on_get(self, req: Request, resp: Response, query: LogQuery, run_id: int) -> None:
        """Return a piece of a rank's log, or search the log.

        Without other parameters: the text from `offset` on. With `tail`: the last lines. With
        `before`: the lines that end there. With `search`: the matching lines from `offset` on. With
        `format=text`: the whole log.
        """
        run, rank = lifecycle.find(run_id), query.rank
        attempt = query.attempt_of(run)
        worker = lifecycle.worker_of(run, attempt, rank)
        if worker is None:
            raise BadFieldError(
                "rank", f"run {run_id} has ranks 0 to {run.world_size - 1} (got {rank})"
            )
        log = logs.find(run, worker, query.stream, attempt)
        if query.format == "text":
            resp.content_type = "text/plain; charset=utf-8"
            offer_file(resp, f"run-{run.id}-rank-{rank}-{query.stream}.txt")
            resp.stream, resp.content_length = logs.whole(log), log.length
        elif query.search is not None:
            resp.media = logs.search(log, query.search, query.offset)
        elif query.before is not None:
            resp.media = logs.before(log, query.before)
        elif query.tail is not None:
            resp.media = logs.tail(log, query.tail)
        else:
            resp.media = logs.page(log, query.offset)
