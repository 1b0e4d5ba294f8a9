"""The controller's hands: carry out what was decided. Each is safe to repeat and to interrupt."""

import logging
import time
from dataclasses import dataclass

from master.controller.actions import (
    Action,
    Assign,
    Count,
    End,
    Scale,
    StopRanks,
    Wait,
    WriteOff,
)
from master.controller.commands import command
from master.controller.settling import Settler
from master.database import STATE, exclusive
from master.models import Rank, Run
from master.pools.base import Placement, Pool
from master.reading import logs
from master.recording import streams
from master.runs import deadline_at
from mlbench.names import ACTIVE_STATES

log = logging.getLogger(__name__)

_STDERR_LINES = 10


@dataclass(frozen=True)
class Hands:
    """Carries out actions on the database and the pool."""

    pool: Pool
    settler: Settler

    def perform(self, action: Action) -> None:
        """Carry out one action; none waits for Prometheus."""
        match action:
            case Scale(workers, shape, busy):
                self.pool.scale(workers, shape, busy)
            case Wait(run_id, why):
                Run.update(waiting=why).where(Run.id == run_id).execute()
            case Assign(run_id, attempt, workers):
                self._assign(run_id, attempt, workers)
            case StopRanks(run_id, reason):
                log.info("run %d: stopping all ranks %s", run_id, reason)
                _stop_ranks(run_id, reason)
            case WriteOff():
                _write_off(action)
            case Count(run_id):
                self.settler.ask(run_id)
            case End():
                _end(action)

    def _assign(self, run_id: int, attempt: int, workers: tuple[str, ...]) -> None:
        run = Run.get_by_id(run_id)
        placement = self.pool.place(workers, run.num_cpus)
        if placement is None:
            return
        now = time.time()
        run.started_at = run.started_at or now
        with exclusive(STATE):
            begun = (
                Run.update(
                    state="STARTED",
                    attempt=attempt,
                    started_at=run.started_at,
                    delivery=None,
                    waiting=None,
                )
                .where(Run.id == run_id, Run.attempt == attempt - 1, Run.state.in_(ACTIVE_STATES))
                .execute()
            )
            if not begun:
                return
            for rank, worker in enumerate(workers):
                Rank.create(
                    run=run_id,
                    attempt=attempt,
                    rank=rank,
                    worker=worker,
                    assigned_at=now,
                    assignment=_assignment(run, attempt, rank, placement),
                    pod_uid=placement.pods[rank].uid or None,
                    image=placement.pods[rank].image or None,
                )
        log.info("run %d: attempt %d begins on %s", run_id, attempt, ", ".join(workers))


def _assignment(run: Run, attempt: int, rank: int, placement: Placement) -> dict[str, object]:
    """Return what the agent of a rank is told."""
    hosts = [pod.ip for pod in placement.pods]
    return {
        "run_id": run.id,
        "attempt": attempt,
        "rank": rank,
        "world_size": len(hosts),
        "master_addr": placement.master_addr,
        "master_port": placement.master_port,
        "command": command(run, rank, hosts, placement.python),
        "working_dir": run.working_dir,
        "cpus": list(placement.cpus[rank]),
        "seed": run.seed,
        "deadline_at": deadline_at(run),
        # Saving takes time from the training, so only a run that may need it does so.
        "keeps_checkpoints": run.max_restarts > 0,
    }


def _stop_ranks(run_id: int, reason: str) -> None:
    attempt = Run.select(Run.attempt).where(Run.id == run_id)
    with exclusive(STATE):
        Rank.update(stop=True).where(Rank.run == run_id, Rank.attempt == attempt).execute()
        Run.update(reason=reason).where(Run.id == run_id, Run.state.in_(ACTIVE_STATES)).execute()


def _write_off(action: WriteOff) -> None:
    with exclusive(STATE):
        rank = Rank.get(run=action.run_id, attempt=action.attempt, rank=action.rank)
        if rank.lost:
            return
        rank.lost, rank.exited_at = action.why, rank.exited_at or action.heard_at
        rank.save()
        streams.close(action.run_id, action.attempt, action.rank, sizes={})
    log.warning("run %d: rank %d is lost: %s", action.run_id, action.rank, action.why)


def _end(end: End) -> None:
    run = Run.get_by_id(end.run_id)
    reason = end.reason
    if end.failed_rank is not None:
        stderr = logs.tail(logs.find(run, end.failed_rank, "stderr"), _STDERR_LINES).text.strip()
        # PostgreSQL has no NUL in texts.
        reason += f"\n{stderr}".replace("\0", "\N{REPLACEMENT CHARACTER}") if stderr else ""
    with exclusive(STATE):
        Run.update(state=end.state, reason=reason, finished_at=time.time(), waiting=None).where(
            Run.id == end.run_id, Run.state.in_(ACTIVE_STATES)
        ).execute()
    log.info("run %d: %s %s", end.run_id, end.state, end.reason)
