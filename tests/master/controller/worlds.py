"""Observed states and runs for tests of decisions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.observed_state import (
    ObservedState,
    PoolPolicy,
    RankView,
    RunView,
    WorkerView,
)

NOW = 1_000_000.0

RUNNING = RankView(
    rank=0,
    worker="w-0",
    pod_uid="uid-0",
    reported=True,
    stopping=False,
    exit_code=None,
    exited_at=None,
    held=0,
    streams_complete=False,
    seen_at=NOW - 0.2,
    silent=0.0,
    forgotten=False,
    replaced=False,
    trouble="",
    lost="",
)
STOPPING = replace(RUNNING, stopping=True)
RUN = RunView(
    id=7,
    attempt=1,
    num_workers=2,
    shape=WorkerSpec(),
    max_restarts=0,
    stop_requested=False,
    deadline_seconds=None,
    waiting="",
    stop_reason="",
    ranks=(RUNNING, replace(RUNNING, rank=1, worker="w-1", pod_uid="uid-1")),
    recorded=True,
    waited=60.0,
)
ORDERED = replace(RUN, attempt=0, ranks=())


def workers(count: int, busy: Sequence[int] = (), silent: float = 0.0) -> tuple[WorkerView, ...]:
    return tuple(WorkerView(f"w-{i}", i, i in busy, silent) for i in range(count))


POLICY = PoolPolicy(min_workers=2, start_seconds=120.0, idle_seconds=60.0)
WORLD = ObservedState(POLICY, (), (), workers(2), waits_for="", warm=None, idle=0.0)
ALONE = replace(WORLD, workers=workers(1))


def with_ranks(*ranks: RankView, **changes: Any) -> RunView:
    numbered = tuple(
        replace(r, rank=i, worker=f"w-{i}", pod_uid=f"uid-{i}") for i, r in enumerate(ranks)
    )
    return replace(RUN, ranks=numbered, **changes)


def exited(code: int, at: float = NOW - 1) -> RankView:
    return replace(RUNNING, exit_code=code, exited_at=at, streams_complete=True)


def lost(at: float = NOW - 31) -> RankView:
    why = "no report from w-1 for 31 s"
    return replace(RUNNING, lost=why, exited_at=at, seen_at=at, silent=NOW - at)
