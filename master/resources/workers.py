"""The agents' two routes: poll, and ship a stream."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from master import runs, workers
from master.auth import Access
from master.errors import BadFieldError
from master.models import Rank, Run, run_owner
from master.recording import streams
from master.recording.spool import Spool
from master.resources.params import read_body, read_bytes, whole_number
from master.serving.wire import waited_seconds
from mlbench.names import ACTIVE_STATES, STREAMS

_MAX_CHUNK_BYTES = 4 << 20
_MAX_POD_NAME_LENGTH = 253  # as Kubernetes has it


class PollResource:
    """``/api/workers/{pod}/poll``: one request is report, heartbeat and command."""

    access: Access = "agent"

    def on_post(self, req: Request, resp: Response, pod: str) -> None:
        """Note what the agent reports, and answer with what it should do."""
        if len(pod) > _MAX_POD_NAME_LENGTH or "\0" in pod:
            raise falcon.HTTPNotFound(description="pod: no pod can have this name")
        report = read_body(req, workers.Report)
        resp.media = workers.poll(pod, report, waited_seconds(req.env)).model_dump()


@dataclass(frozen=True)
class StreamResource:
    """``/api/runs/{run}/ranks/{rank}/{stream}``: an append-only stream of a rank."""

    spool: Spool
    access: Access = "agent"

    def on_put(self, req: Request, resp: Response, run_id: int, rank: int, stream: str) -> None:
        """Store what is new of the body, which begins at ``offset``; answer with the offset held.

        A stream of a run or an attempt that has ended, or of a lost rank, is closed: 409.
        """
        if stream not in STREAMS:
            raise falcon.HTTPNotFound(description=f"stream: one of {', '.join(STREAMS)}")
        attempt = whole_number(req, "attempt")
        offset = whole_number(req, "offset")
        if attempt is None or offset is None:
            raise BadFieldError("attempt and offset", "both are needed")
        _check_open(runs.find(run_id), attempt, rank)
        if stream == streams.METRICS:
            self.spool.check_room()
        key = streams.StreamKey(run_owner(run_id), attempt, rank, stream)
        held = streams.append(key, offset, read_bytes(req, _MAX_CHUNK_BYTES))
        resp.media = {"offset": held}


def _check_open(run: Run, attempt: int, rank: int) -> None:
    """Make sure that a rank may still send.

    Raises:
        falcon.HTTPConflict: its run or attempt has ended, or it is lost (409).
        falcon.HTTPNotFound: there is no such rank (404).
    """
    if run.state not in ACTIVE_STATES:
        raise falcon.HTTPConflict(description=f"run {run.id} has ended")
    if attempt < run.attempt:
        raise falcon.HTTPConflict(description=f"attempt {attempt} of run {run.id} has ended")
    found = (
        Rank.get_or_none(run=run, attempt=attempt, rank=rank)
        if 0 <= rank < run.num_workers
        else None
    )
    if found is None:
        raise falcon.HTTPNotFound(
            description=f"rank: run {run.id} has no rank {rank} in attempt {attempt}"
        )
    if found.lost:
        raise falcon.HTTPConflict(description=f"rank {rank} is lost: {found.lost}")
