"""``/api/runs/{id}/logs/``: what the ranks of a run write."""

from dataclasses import asdict

from falcon import Request, Response

from master import runs
from master.errors import BadFieldError
from master.reading import logs
from master.resources.params import choice, whole_number


class LogsResource:
    """A rank's stdout or stderr."""

    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the text from ``offset`` on, or with the last ``tail`` lines."""
        run = runs.find(run_id)
        rank = whole_number(req, "rank", default=0) or 0
        if rank >= run.num_workers:
            raise BadFieldError("rank", f"run {run_id} has ranks 0 to {run.num_workers - 1}")
        stream = choice(req, "stream", ("stdout", "stderr"), default="stdout")
        lines = whole_number(req, "tail")
        if lines is None:
            found = logs.page(run, rank, stream, whole_number(req, "offset", default=0) or 0)
        else:
            found = logs.tail(run, rank, stream, lines)
        resp.media = {"rank": rank, "stream": stream, **asdict(found)}
