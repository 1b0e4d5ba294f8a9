"""The local pool: what it says, what it asks for, and how it shares out the cores."""

import os
import socket
from collections.abc import Sequence

import pytest

from master.pools.base import PodStatus, Shape
from master.pools.local import LocalPool, share_cores
from master.settings import Settings
from mlbench.pool import LocalWorker, PoolFiles


@pytest.fixture
def pool(settings: Settings) -> LocalPool:
    return LocalPool(PoolFiles(settings.home))


def test_pods_are_what_the_supervisor_says(pool: LocalPool) -> None:
    assert (pool.pods(), pool.explain()) == ([], "")
    gone = LocalWorker("w-1", False, "it ended with 1")
    pool.files.write_status([LocalWorker("w-0", alive=True), gone])
    first, second = pool.pods()
    assert first == PodStatus(
        name="w-0",
        number=0,
        phase="Running",
        ip="127.0.0.1",
        node=os.uname().nodename,
        labels={"app": "mlbench", "component": "worker", "release": "local"},
    )
    assert (second.name, second.number, second.phase) == ("w-1", 1, "Failed")
    assert pool.explain() == "w-1 is not there: it ended with 1"


def test_ranks_meet_at_a_free_port_of_this_machine(pool: LocalPool) -> None:
    pool.scale(2, Shape(), frozenset())
    assert pool.files.read_wanted() == 2, "the supervisor is told"
    pool.files.write_status([LocalWorker("w-0", alive=True), LocalWorker("w-1", alive=True)])
    assert pool.place(["w-0", "w-2"], 1) is None
    placement = pool.place(["w-1", "w-0"], 1)
    assert placement is not None
    assert [pod.name for pod in placement.pods] == ["w-1", "w-0"]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", placement.master_port))
    here = os.sched_getaffinity(0)
    assert len(placement.cpus) == 2
    assert all(len(cores) == 1 and set(cores) <= here for cores in placement.cpus)


@pytest.mark.parametrize(
    ("cores", "workers", "num_cpus", "shares"),
    [
        *(([0, 1, 2, 3], 3, None, ((0,), (1,), (2,))), ([5, 7], 2, 1, ((5,), (7,)))),
        # More than there is: they go round.
        *(([0, 1], 3, None, ((0,), (1,), (0,))), ([0, 1, 2], 2, 2, ((0, 1), (0, 2)))),
        ([0, 1], 2, 9, ((0, 1), (0, 1))),
    ],
)
def test_cores_are_shared_out(
    cores: Sequence[int], workers: int, num_cpus: int | None, shares: object
) -> None:
    assert share_cores(cores, workers, num_cpus) == shares
