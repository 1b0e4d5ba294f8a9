"""Routes of agents: poll, ship a stream; and the route by which a process joins a run."""

from dataclasses import dataclass
from typing import Annotated

import falcon
from falcon import Request, Response

from mlbench.contract.fields import Field
from mlbench.contract.names import ACTIVE_STATES, STREAMS
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.records import Held, Joined
from mlbench_master.database.connection import check_room, run_sql
from mlbench_master.database.models import run_owner
from mlbench_master.http.access import Access, Caller, own_pod
from mlbench_master.http.bodies import read_body, read_bytes
from mlbench_master.openapi.operation import operation
from mlbench_master.openapi.parameters import Whole
from mlbench_master.pools.pool import is_same_pod
from mlbench_master.recording import late, streams
from mlbench_master.recording.limits import Spool
from mlbench_master.runs import joining, worker_reports
from mlbench_master.serving.connection import MAX_BODY_BYTES, waited_seconds
from mlbench_master.settings import InstallationLimits

# Raw SQL: the ORM is too slow for a thousand ranks shipping every second or two.
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
    """``/api/join``: processes of external jobs become ranks of a run."""

    limits: InstallationLimits
    agent_secret: str
    access: Access = "join"

    @operation(
        "join_run",
        "Run and attempt of the process, and the name and token of its pod for polls and streams.",
        Joined,
        body=joining.JoinRequest,
        errors=(409, 429),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Join a process to the run of its job. The first process creates the run.

        Repeating a request returns the same response. 409: another process has this rank, the run
        has ended, is at a later attempt or has another number of ranks. 429: the quota of the
        joining token is used up.
        """
        request = read_body(req, joining.JoinRequest)
        caller: Caller = req.context.caller
        # Only joining tokens have separate jobs.
        holder = caller.holder if caller.role == "record" else ""
        resp.media = joining.join(
            request, holder, self.limits, self.agent_secret, caller.expires_at, caller.token_user
        )


class PollResource:
    """``/api/workers/{pod}/poll``: report, heartbeat and command in one request."""

    access: Access = "agent"

    @operation(
        "poll",
        "What the agent must do, and when to poll again.",
        worker_reports.Reply,
        body=worker_reports.Report,
    )
    def on_post(self, req: Request, resp: Response, pod: str) -> None:
        """Report the state of an agent, and get its next task.

        403: the token belongs to another pod.
        """
        identity = own_pod(req, pod)
        report = read_body(req, worker_reports.Report)
        if report.pod_uid != identity.uid:
            raise falcon.HTTPForbidden(description="pod_uid: token belongs to another pod")
        resp.media = worker_reports.poll(pod, report, waited_seconds(req.env))


@dataclass(frozen=True)
class StreamQuery:
    """The parameters of ``PUT /api/runs/{run_id}/ranks/{rank}/{stream}``."""

    attempt: Annotated[Whole, Field(example=1)]
    """Attempt of the run."""
    offset: Annotated[Whole, Field(example=0)]
    """Offset of the body in the stream, in bytes."""
    written: Whole = 0
    """Length of the stream so far, in bytes. If given, the returned offset may skip data that is
    left out of a long log or of too many files."""


@dataclass(frozen=True)
class StreamResource:
    """``/api/runs/{run}/ranks/{rank}/{stream}``: an append-only stream of a rank."""

    spool: Spool
    log_bytes: int
    """Bytes of each log that are stored."""
    access: Access = "agent"

    @operation(
        "ship_stream",
        "The offset to continue at: all data before it is stored or left out.",
        Held,
        body=bytes,
        errors=(409, 503),
    )
    def on_put(
        self,
        req: Request,
        resp: Response,
        query: StreamQuery,
        run_id: int,
        rank: int,
        stream: str,
    ) -> None:
        """Append the body, which starts at `offset`, to a stream of a rank.

        Data before the stored offset is ignored. Only the start and the end of a long log are
        stored; with `written`, the returned offset may therefore be beyond the sent data. If a run
        has too many files, only their list is stored.

        Data that a rank sends after it was lost is stored; its samples are additions that are not
        part of the run's result. 409: the run or the attempt has ended and the rank was not lost,
        or the run is an external job and has ended. 403: the rank belongs to another pod.
        """
        if stream not in STREAMS:
            problem = f"must be one of {', '.join(STREAMS)} (got {stream[:80]!r})"
            raise falcon.HTTPNotFound(description=f"stream: {problem}")
        offset, written = query.offset, query.written
        key = streams.StreamKey(run_owner(run_id), query.attempt, rank, stream)
        end = max(written, offset + (req.content_length or 0))
        num_workers, was_lost = _check_open(run_id, key, end, req.context.pod)
        if stream == streams.METRICS:
            self.spool.check_room()
            data = read_bytes(req, MAX_BODY_BYTES)
            append = late.append if was_lost else streams.append
            held = append(key, offset, data)
        else:
            check_room()
            data = read_bytes(req, MAX_BODY_BYTES)
            if was_lost:
                late.extend(key, end)
            if stream == streams.FILES:
                held = streams.append_files(key, offset, data, written)
            else:
                held = streams.append(key, offset, data, limit=self.log_bytes, written=written)
        resp.media = Held(
            held, worker_reports.next_ship_seconds(num_workers, waited_seconds(req.env))
        )


def _check_open(
    run_id: int, key: streams.StreamKey, end: int, pod: PodIdentity
) -> tuple[int, bool]:
    """Check that a rank may still send, and return its run's workers and whether it was lost.

    Args:
        run_id: the run.
        key: the stream.
        end: length of the stream at its sender, in bytes.
        pod: the pod that sends.

    Raises:
        falcon.HTTPConflict: the run or the attempt has ended (409).
        falcon.HTTPForbidden: the rank belongs to another pod, or to an earlier one (403).
        falcon.HTTPNotFound: the rank does not exist (404).
    """
    attempt, rank = key.attempt, key.rank
    # Larger numbers do not fit the columns, and no run, attempt or rank has them.
    numbers = (min(number, 2**31 - 1) for number in (attempt, rank, run_id))
    row = run_sql(_RANK, pod.name, *numbers).fetchone()
    if row is None:
        raise falcon.HTTPNotFound(description=f"run_id: run {run_id} not found")
    state, current, num_workers, worker, pod_uid, lost, pool_uid, launcher, is_own_run = row
    is_own_rank = worker == pod.name and is_same_pod(pod_uid, pod.uid)
    was_lost = bool(lost and is_own_rank and is_own_run)
    has_ended = state not in ACTIVE_STATES
    # The recorder of an external job keeps its data, so `mlbench ship` can send the whole run.
    if has_ended and launcher and was_lost:
        late.refuse(run_id, key, end)
    if has_ended and (launcher or not was_lost):
        raise falcon.HTTPConflict(description=f"run {run_id} has ended")
    if attempt < current and not was_lost:
        raise falcon.HTTPConflict(description=f"attempt {attempt} of run {run_id} has ended")
    if worker is None:
        raise falcon.HTTPNotFound(
            description=f"rank: run {run_id} has no rank {rank} in attempt {attempt}"
        )
    if not is_own_rank or not is_same_pod(pool_uid, pod.uid):
        raise falcon.HTTPForbidden(description=f"rank: rank {rank} belongs to another pod")
    return int(num_workers), was_lost
