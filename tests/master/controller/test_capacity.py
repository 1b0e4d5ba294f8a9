"""Concurrent runs: cores and workers are never shared, and runs start in queue order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.actions import Assign, Scale, Wait
from mlbench_master.controller.capacity import Shares, share_cores
from mlbench_master.controller.decisions import decide
from mlbench_master.controller.observed_state import ObservedState, RankView, RunView
from tests.master.controller.worlds import ORDERED, POLICY, RUN, RUNNING, WORLD, workers

TWO_AT_A_TIME = replace(POLICY, concurrent_runs=2)
SECOND = replace(ORDERED, id=8, num_workers=1)
WITH_CORES = replace(WORLD, policy=TWO_AT_A_TIME, workers=workers(4), cores=(0, 1, 2, 3))


def test_ranks_share_the_cores() -> None:
    assert share_cores([0, 1, 2, 3], 3, 1) == ((0,), (1,), (2,))
    assert share_cores([5, 7], 2, 1) == ((5,), (7,))
    # More ranks than cores: cores are assigned round-robin.
    assert share_cores([0, 1], 3, 1) == ((0,), (1,), (0,))
    assert share_cores([0, 1, 2], 2, 2) == ((0, 1), (0, 2))


@pytest.mark.parametrize(
    ("concurrent", "asked", "shares"),
    [
        (1, None, ((0, 1), (2, 3))),
        # Half of the cores, also while no other run is active.
        (2, None, ((0,), (1,))),
        (2, 2.0, ((0, 1), (2, 3))),
        (2, 9.0, ((0, 1, 2, 3), (0, 1, 2, 3))),
        (9, None, ((0,), (1,))),
    ],
)
def test_a_run_gets_a_share_of_cores(concurrent: int, asked: float | None, shares: Shares) -> None:
    policy = replace(POLICY, concurrent_runs=concurrent)
    run = replace(ORDERED, shape=WorkerSpec(num_cpus=asked))
    observed = replace(WITH_CORES, policy=policy, runs=(run,))
    assert decide(observed) == [Scale(2, run.shape), Assign(7, 1, ("w-0", "w-1"), shares)]


def test_a_second_run_starts_on_free_cores_and_workers() -> None:
    beside = replace(RUN, cores=frozenset({0, 2}))
    size, begin = decide(replace(WITH_CORES, runs=(beside, SECOND)))
    assert size == Scale(3, busy=frozenset({"uid-0", "uid-1"}))
    assert begin == Assign(8, 1, ("w-2",), ((1, 3),))


def test_a_run_without_capacity_waits_and_never_fails() -> None:
    large = replace(SECOND, shape=WorkerSpec(num_cpus=3.0), waited=9999.0)
    beside = replace(RUN, cores=frozenset({0, 1}))
    size, wait = decide(replace(WITH_CORES, runs=(beside, large)))
    assert isinstance(size, Scale)
    assert size.workers == 2, "the waiting run must not add workers"
    assert wait == Wait(8, "waiting for run 7: this run needs 3 cores, but only 2 of 4 are free")
    few = replace(WITH_CORES, runs=(beside, replace(SECOND, waited=9999.0)), workers=workers(2))
    assert decide(few)[1:] == [Wait(8, "0 of 1 workers are ready", has_room=True)]


def test_in_a_cluster_concurrent_runs_need_the_same_worker_shape() -> None:
    pods = replace(WITH_CORES, cores=None)
    assert decide(replace(pods, runs=(RUN, SECOND)))[1:] == [Assign(8, 1, ("w-2",), ((),))]
    other = replace(SECOND, shape=WorkerSpec(image="me/train:2"))
    why = "waiting for run 7: its workers have another shape"
    size, wait = decide(replace(pods, runs=(RUN, other)))
    assert (size, wait) == (Scale(2, RUN.shape, frozenset({"uid-0", "uid-1"})), Wait(8, why))


def test_a_restart_reuses_its_own_workers() -> None:
    ranks = [replace(_rank(i, f"w-{i + 2}"), exit_code=1, streams_complete=True) for i in range(2)]
    failed = replace(RUN, id=8, ranks=tuple(ranks), max_restarts=1)
    alone = replace(WITH_CORES, runs=(failed,))
    assert decide(alone)[1:] == [Assign(8, 2, ("w-2", "w-3"))]
    both = replace(alone, runs=(RUN, failed), workers=workers(5))
    assert decide(both)[1:] == [Assign(8, 2, ("w-2", "w-3"))]
    gone = tuple(worker for worker in workers(5) if worker.name != "w-2")
    assert decide(replace(both, workers=gone))[1:] == [Wait(8, "1 of 2 workers are ready")]


@dataclass
class Simulation:
    """A machine with a queue of random runs, each of which takes up to 20 s."""

    dice: random.Random
    queue: list[RunView]
    concurrent: int
    cores: int
    going: dict[int, tuple[RunView, int]] = field(default_factory=dict)
    """Active runs by id, each with the time at which it ends."""
    begun: list[int] = field(default_factory=list)
    now: int = 0

    def step(self) -> None:
        self.now += 1
        self.going = {id_: (run, end) for id_, (run, end) in self.going.items() if end > self.now}
        runs = [run for run, _ in self.going.values()]
        if len(runs) < self.concurrent:
            runs += self.queue[:1]
        [size, *actions] = decide(self._world(runs))
        assert isinstance(size, Scale)
        for action in actions:
            if isinstance(action, Assign):
                self._begin(action, size)

    def _world(self, runs: Sequence[RunView]) -> ObservedState:
        policy = replace(POLICY, concurrent_runs=self.concurrent)
        cores = tuple(range(self.cores)) if self.cores else None
        # All workers that the pool could have.
        return replace(WORLD, policy=policy, runs=tuple(runs), workers=workers(40), cores=cores)

    def _begin(self, action: Assign, size: Scale) -> None:
        run = self.queue.pop(0)
        assert (run.id, len(action.workers), action.attempt) == (action.run_id, run.num_workers, 1)
        assert action.cores is not None
        cores = frozenset(core for share in action.cores for core in share)
        ranks = tuple(_rank(rank, worker) for rank, worker in enumerate(action.workers))
        for other, _ in self.going.values():
            assert not cores & other.cores, "core assigned to two runs"
            taken = {rank.worker for rank in other.ranks}
            assert not taken & set(action.workers), "worker assigned to two runs"
            assert self.cores or other.shape == run.shape
        assert max(int(name.partition("-")[2]) for name in action.workers) < size.workers
        begun = replace(run, attempt=1, ranks=ranks, cores=cores)
        self.going[run.id] = begun, self.now + self.dice.randint(1, 20)
        self.begun.append(run.id)


def _rank(rank: int, worker: str) -> RankView:
    return replace(RUNNING, rank=rank, worker=worker, pod_uid=f"uid-{worker}")


@pytest.mark.parametrize("seed", range(25))
def test_random_runs_start_in_order_without_shared_cores(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    cores = dice.choice([0, 1, 2, 5, 16])
    queue = [
        replace(
            ORDERED,
            id=number,
            num_workers=dice.randint(1, 8),
            shape=WorkerSpec(num_cpus=dice.choice([None, None, 1.0, 2.0, 9.0])),
        )
        for number in range(1, 101)
    ]
    simulation = Simulation(dice, queue, dice.randint(1, 4), cores)
    at_most = 0
    for _ in range(100 * 21):
        simulation.step()
        at_most = max(at_most, len(simulation.going))
        if not (simulation.queue or simulation.going):
            break
    # No run started before an older one.
    assert simulation.begun == list(range(1, 101))
    assert at_most <= simulation.concurrent
    if cores in {0, 16} and simulation.concurrent > 1:
        assert at_most > 1, "no runs were concurrent"
