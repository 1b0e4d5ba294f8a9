"""Carry out the decided actions. Each action can be repeated, and interrupted anywhere."""

import logging
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.assignment import Assignment
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.runspec import WorkerSpec, part
from mlbench.evaluation.first_failure import Ended, ended_first
from mlbench_master.controller.actions import (
    Action,
    Ask,
    Assign,
    End,
    MarkLost,
    Scale,
    StopRanks,
    Wait,
)
from mlbench_master.database.connection import STATE, exclusive, store
from mlbench_master.database.models import Rank, Run
from mlbench_master.errors import RefusedError
from mlbench_master.pools.pool import Pool, wake
from mlbench_master.reading import logs
from mlbench_master.recording import streams
from mlbench_master.runs import diagnoses, lifecycle, run_clock
from mlbench_master.runs.run_events import describe_exit

log = logging.getLogger(__name__)

_RANK = r"(?:\[rank\d+\]: )?"  # PyTorch puts this before each line of a traceback
# The last lines of a frame that was cut off, before a whole frame.
_CUT_FRAME = re.compile(rf'\A(?:{_RANK} {{4}}.*\n)+(?={_RANK}  File ")')


@dataclass(frozen=True)
class Executor:
    """Carries out actions on the database and the pool."""

    pool: Pool
    announces: bool = False
    """Whether the ends of runs are sent to a webhook."""

    def perform(self, action: Action) -> None:
        """Carry out one action, without waiting for Prometheus or the cluster."""
        match action:
            case Scale():
                self.pool.scale(action.workers, action.shape, action.busy)
            case Wait(run_id, why, has_room):
                Run.update(waiting=why).where(Run.id == run_id).execute()
                if has_room:
                    first = Run.update(room_at=time.time()).where(Run.room_at.is_null())
                    first.where(Run.id == run_id).execute()
            case Assign():
                self._assign(action)
            case Ask(run_id, reason):
                with suppress(RefusedError):  # the last of its ranks has just ended
                    diagnoses.ask(run_id, reason)
            case StopRanks(run_id, reason):
                log.info("run %d: stopping all ranks %s", run_id, reason)
                attempt = Run.select(Run.attempt).where(Run.id == run_id)
                current = (Rank.run == run_id) & (Rank.attempt == attempt)
                is_active = Run.state.in_(ACTIVE_STATES)
                with exclusive(STATE):
                    Rank.update(stop=True).where(current).execute()
                    Run.update(reason=reason).where(Run.id == run_id, is_active).execute()
                    workers = {rank.worker for rank in Rank.select(Rank.worker).where(current)}
                wake(pod for pod in self.pool.pods() or [] if pod.name in workers)
            case MarkLost(run_id, attempt, number, seen_at, why):
                with exclusive(STATE):
                    rank = Rank.get(run=run_id, attempt=attempt, rank=number)
                    if rank.lost:
                        return
                    store(rank, lost=why, exited_at=rank.exited_at or seen_at)
                    streams.close(run_id, attempt, number, sizes={})
                log.warning("run %d: rank %d is lost: %s", run_id, number, why)
            case End():
                _end(action, announces=self.announces)

    def _assign(self, action: Assign) -> None:
        run = Run.get_by_id(action.run_id)
        usable = {pod.name: pod for pod in self.pool.pods() or [] if pod.usable}
        if not usable.keys() >= {*action.workers}:  # a pod is gone, or has to go
            return
        pods = tuple(usable[name] for name in action.workers)
        placement = self.pool.place(pods, part(WorkerSpec, run))
        now = run_clock.now(run)
        if run.started_at is None:
            run.started_at, run.steady_clock = now, run_clock.begin()
        run.attempt = action.attempt
        last = (Rank.run == run.id) & (Rank.attempt == run.attempt - 1)
        before = Rank.select(Rank.assignment).where(last).order_by(Rank.rank)
        cores = action.cores or [tuple(rank.assignment.get("cpus", ())) for rank in before]
        begin = Run.update(
            state="STARTED",
            attempt=run.attempt,
            started_at=run.started_at,
            steady_clock=run.steady_clock,
            delivery=None,
            waiting=None,
        ).where(Run.id == run.id, Run.attempt == run.attempt - 1, Run.state.in_(ACTIVE_STATES))
        with exclusive(STATE):
            if not begin.execute():
                return
            for rank, pod in enumerate(pods):
                assignment = Assignment(
                    run_id=run.id,
                    attempt=run.attempt,
                    rank=rank,
                    world_size=len(pods),
                    master_addr=placement.master_addr,
                    master_port=placement.master_port,
                    command=tuple(command(run, rank, placement.hosts, placement.python)),
                    cpus=cores[rank],
                    keeps_checkpoints=run.max_restarts > 0,
                    working_dir=run.working_dir,
                    seed=run.seed,
                    deadline_at=lifecycle.deadline_at(run),
                    attachment=placement.attachments[rank] if placement.attachments else None,
                )
                Rank.create(
                    run=run.id,
                    attempt=run.attempt,
                    rank=rank,
                    worker=pod.name,
                    assigned_at=now,
                    clock_ahead=run_clock.was_set_by(run),
                    assignment=asdict(assignment),
                    pod_uid=pod.uid or None,
                    image=pod.image or None,
                )
        wake(pods)
        count, first = len(action.workers), action.workers[0]
        log.info("run %d: attempt %d begins on %d workers, %s…", run.id, run.attempt, count, first)


def command(run: Run, rank: int, hosts: Sequence[str], python: str) -> Sequence[str]:
    """Return the command of a rank: an official benchmark, or the command of the user.

    ``hosts`` are the workers' addresses in order of rank; ``python`` has the official benchmarks.
    """
    if run.benchmark:
        options = [part for key, value in run.args.items() for part in (f"--{key}", value)]
        # -P: ignore modules of the working folder, which could shadow ours.
        return [python, "-P", "-m", BENCHMARKS[run.benchmark].module, *options]
    if rank > 0 and not run.run_all_nodes:
        # Rank 0 does the work: with MPI, its command starts the processes of the other ranks.
        return ("true",)
    # Not str.format: other braces must stay.
    values = {
        "{hosts}": ",".join(hosts),
        "{rank}": str(rank),
        "{run_id}": str(run.id),
        "{backend}": run.backend,
        "{seed}": "{seed}" if run.seed is None else str(run.seed),
    }
    words = shlex.split(run.command)
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    flags = {"--gpu": run.gpu_enabled, "--light": run.light_target}
    return [*words, *(flag for flag, is_set in flags.items() if is_set)]


def _end(end: End, *, announces: bool) -> None:
    run = Run.get_or_none(Run.id == end.run_id)
    if run is None:  # deleted in the meantime
        return
    reason = end.reason
    ranks = list(Rank.select().where(Rank.run == run.id, Rank.attempt == run.attempt))
    exited = {rank.rank: rank for rank in ranks if rank.exit_code is not None}
    if end.failed_rank is not None:
        stderr = _last_stderr(run, end.failed_rank)
        # The exit of another rank may have made it fail. The hang diagnosis has the same rule.
        if Ended(end.failed_rank, 1, stderr).echoes:
            ends = [Ended(n, rank.exit_code, _last_stderr(run, n)) for n, rank in exited.items()]
            at_fault = ended_first(ends)
            if len(at_fault) == 1 and at_fault != [end.failed_rank]:
                culprit = exited[at_fault[0]]
                exit_ = describe_exit(culprit.exit_code or 0)
                reason = f"rank {culprit.rank} on {culprit.worker} {exit_} first; then {reason}"
                stderr = _last_stderr(run, culprit.rank) or stderr
        stderr = _CUT_FRAME.sub("", stderr).rstrip().lstrip("\n")
        # PostgreSQL cannot store NUL in a text.
        reason += f"\n{stderr}".replace("\0", "\N{REPLACEMENT CHARACTER}") if stderr else ""
    # The run ended with the last exit of the current attempt's ranks. It ends now if an exit is
    # unknown (a lost rank, or a worker's clock that puts it before the start), or if the run waited
    # for workers for a restart.
    finished_at = now = run_clock.now(run)
    exits = [at for rank in exited.values() if (at := rank.exited_at or 0.0) > rank.assigned_at]
    is_waiting = run.waiting is not None and not run.launcher
    if exits and len(exits) == len(ranks) and not is_waiting:
        # The run includes the time at which it reached its target, even by another clock.
        finished_at = min(now, max(*exits, run.started_at or 0.0, run.target_reached_at or 0.0))
    # A recording that is shipped while it runs arrives completely within 10 s of its end.
    came_late = bool(run.launcher) and now - finished_at > 10.0
    lifecycle.end(
        end.run_id,
        announces=announces,
        state=end.state,
        reason=reason,
        finished_at=finished_at,
        shipped_at=now if came_late else None,
        clock_set_seconds=run_clock.was_set_by(run),
        waiting=None,
    )
    log.info("run %d: %s %s", end.run_id, end.state, end.reason)


def _last_stderr(run: Run, rank: int) -> str:
    return logs.tail(logs.find(run, rank, "stderr"), 10).text  # lines
