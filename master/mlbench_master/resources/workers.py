"""The agents' two routes, poll and ship a stream, and the one by which a process joins a run."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response

from mlbench.contract.names import ACTIVE_STATES, STREAMS
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.records import Held, Joined
from mlbench_master.database.connection import check_room, run_sql
from mlbench_master.database.models import run_owner
from mlbench_master.errors import BadFieldError
from mlbench_master.http.access import Access, own_pod
from mlbench_master.http.bodies import read_body, read_bytes
from mlbench_master.openapi.operation import operation, whole
from mlbench_master.pools.base import is_same_pod
from mlbench_master.recording import files, late, streams
from mlbench_master.recording.limits import Spool
from mlbench_master.runs import joining, workers
from mlbench_master.serving.buffered import waited_seconds
from mlbench_master.settings import Limits

_MAX_CHUNK_BYTES = 4 << 20
# No run, attempt or rank has this number; databases take none of any size.
_LARGEST = 2**31 - 1
_ATTEMPT = whole("attempt", "The run's attempt.", 1, required=True)
_OFFSET = whole("offset", "Where the body begins in the stream.", 0, required=True)
_WRITTEN = whole(
    "written",
    "How long the stream is by now. The answer may lead past what is left out of a long log, or "
    "of files that are too many.",
)
# Spelled in SQL, as a thousand ranks ship every second or two.
_RANK = """
    SELECT run.state, run.attempt, run.num_workers, mine.worker, mine.pod_uid, mine.lost, pod.uid,
        run.launcher, run.origin IS NULL
    FROM run
    LEFT JOIN pod ON pod.name = ?
    LEFT JOIN "rank" AS mine ON mine.run_id = run.id AND mine.attempt = ? AND mine.rank = ?
    WHERE run.id = ?
"""


@dataclass(frozen=True)
class JoinResource:
    """``/api/join``: a process that somebody else has started becomes a rank of a run."""

    limits: Limits
    agent_secret: str
    access: Access = "join"

    @operation(
        "join_run",
        "Its run and attempt, and a pod's name and token, to poll and to ship as an agent does.",
        Joined,
        body=joining.JoinRequest,
        errors=(409, 429),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Have a process join the run of its job; the first to come orders it.

        The same request again has the same answer. 409: the rank is another process's, or the run
        has ended or is at a later attempt, or it has another number of ranks. 429: the quota of
        the joining token is used up.
        """
        order = read_body(req, joining.JoinRequest)
        holder, expires_at = req.context.holder, req.context.expires_at
        resp.media = joining.join(order, holder, self.limits, self.agent_secret, expires_at)


class PollResource:
    """``/api/workers/{pod}/poll``: one request is report, heartbeat and command."""

    access: Access = "agent"

    @operation("poll", "What to do, and when to ask again.", workers.Reply, body=workers.Report)
    def on_post(self, req: Request, resp: Response, pod: str) -> None:
        """Note what the agent reports, and answer with what it should do.

        A pod speaks for itself alone: 403.
        """
        asking = own_pod(req, pod)
        report = read_body(req, workers.Report)
        if report.pod_uid != asking.uid:
            raise falcon.HTTPForbidden(description="pod_uid: token belongs to another pod")
        resp.media = workers.poll(pod, report, waited_seconds(req.env)).model_dump()


@dataclass(frozen=True)
class StreamResource:
    """``/api/runs/{run}/ranks/{rank}/{stream}``: an append-only stream of a rank."""

    spool: Spool
    log_bytes: int
    """How much of each log is held."""
    access: Access = "agent"

    @operation(
        "ship_stream",
        "The offset to go on from: all before it is held, or left out.",
        Held,
        parameters=(_ATTEMPT, _OFFSET, _WRITTEN),
        body=bytes,
        errors=(409, 503),
    )
    def on_put(self, req: Request, resp: Response, run_id: int, rank: int, stream: str) -> None:
        """Store what is new of the body, which begins at ``offset``; answer with the offset held.

        Of a log, only the start and the end are held; of one with ``written`` bytes so far, the
        offset may be beyond what was sent. Of files beyond those that a run may have, their list
        alone is held.

        Data that a rank sends after it was lost is stored, its samples as additions that are not
        part of the run's result. Any other stream of a run or an attempt that has ended is closed:
        409. So is the stream of a lost rank of an external job that has ended. A pod writes for its
        own rank only, as long as it is the pod of its name: 403.
        """
        if stream not in STREAMS:
            problem = f"must be one of {', '.join(STREAMS)} (got {stream[:80]!r})"
            raise falcon.HTTPNotFound(description=f"stream: {problem}")
        attempt, offset = _ATTEMPT.read(req), _OFFSET.read(req)
        if attempt is None or offset is None:
            raise BadFieldError("attempt and offset", "both are required")
        key = streams.StreamKey(run_owner(run_id), attempt, rank, stream)
        written = _WRITTEN.read(req) or 0
        end = max(written, offset + (req.content_length or 0))
        num_workers, is_late = _check_open(run_id, key, end, req.context.pod)
        if stream == streams.METRICS:
            self.spool.check_room()
            data = read_bytes(req, _MAX_CHUNK_BYTES)
            append = late.append if is_late else streams.append
            held = append(key, offset, data)
        else:
            check_room()
            data = read_bytes(req, _MAX_CHUNK_BYTES)
            if is_late:
                late.extend(key, end)
            if stream == files.FILES:
                held = files.append(key, offset, data, written)
            else:
                held = streams.append(key, offset, data, limit=self.log_bytes, written=written)
        resp.media = Held(held, workers.next_ship_seconds(num_workers, waited_seconds(req.env)))


def _check_open(
    run_id: int, key: streams.StreamKey, end: int, asking: PodIdentity
) -> tuple[int, bool]:
    """Return the workers of a run whose rank may still send, and whether that rank was lost.

    The stream has ``end`` bytes at its sender.

    Raises:
        falcon.HTTPConflict: its run or attempt has ended (409).
        falcon.HTTPForbidden: it is the rank of another pod, or of the one before (403).
        falcon.HTTPNotFound: there is no such rank (404).
    """
    attempt, rank = key.attempt, key.rank
    its = (min(number, _LARGEST) for number in (attempt, rank, run_id))
    row = run_sql(_RANK, asking.name, *its).fetchone()
    if row is None:
        raise falcon.HTTPNotFound(description=f"run_id: run {run_id} not found")
    state, current, num_workers, worker, pod_uid, lost, pool_uid, launcher, is_own_run = row
    is_its_own = worker == asking.name and is_same_pod(pod_uid, asking.uid)
    is_late = bool(lost and is_its_own and is_own_run)
    has_ended = state not in ACTIVE_STATES
    # The recorder of an external job keeps the rest, for `mlbench ship` to make a whole run of.
    if has_ended and launcher and is_late:
        late.refuse(run_id, key, end)
    if has_ended and (launcher or not is_late):
        raise falcon.HTTPConflict(description=f"run {run_id} has ended")
    if attempt < current and not is_late:
        raise falcon.HTTPConflict(description=f"attempt {attempt} of run {run_id} has ended")
    if worker is None:
        raise falcon.HTTPNotFound(
            description=f"rank: run {run_id} has no rank {rank} in attempt {attempt}"
        )
    if not is_its_own or not is_same_pod(pool_uid, asking.uid):
        raise falcon.HTTPForbidden(description=f"rank: rank {rank} belongs to another pod")
    return int(num_workers), is_late
