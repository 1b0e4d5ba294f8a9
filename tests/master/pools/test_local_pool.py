"""The local pool: pods, placement and requests to the supervisor."""

import os
import socket
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from mlbench.contract.runspec import WorkerSpec
from mlbench.contract.shaping import Shaping
from mlbench.local.pool import LocalWorker, PoolFiles
from mlbench_master.pools.local_pool import LocalPool
from mlbench_master.pools.pool import PodStatus
from mlbench_master.settings import Settings


@pytest.fixture
def pool(settings: Settings) -> LocalPool:
    return LocalPool(PoolFiles(settings.home))


def test_pods_are_read_from_the_supervisor(pool: LocalPool) -> None:
    assert (pool.pods(), pool.explain()) == ([], "")
    gone = LocalWorker("w-1", False, "it ended with 1")
    pool.files.write_status([LocalWorker("w-0", alive=True, port=9500), gone])
    first, second = pool.pods()
    assert first == PodStatus(
        name="w-0",
        number=0,
        phase="Running",
        ip="127.0.0.1",
        node=os.uname().nodename,
        labels={"app": "mlbench", "component": "worker", "release": "local"},
        port=9500,
    )
    assert (second.name, second.number, second.phase) == ("w-1", 1, "Failed")
    assert pool.explain() == "w-1 does not run: it ended with 1"


def test_ranks_use_a_free_port_of_this_machine(pool: LocalPool) -> None:
    pool.scale(2, WorkerSpec(), frozenset())
    assert pool.files.read_wanted() == 2, "the supervisor must see the requested size"
    pool.files.write_status([LocalWorker("w-0", alive=True), LocalWorker("w-1", alive=True)])
    first, second = pool.pods()
    placement = pool.place((second, first), WorkerSpec(num_cpus=1))
    assert placement.pods == (second, first)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", placement.master_port))
    least, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert placement.master_port < int(least), "the port must be outside the ephemeral range"
    here = os.sched_getaffinity(0)
    assert set(pool.cores()) == here
    assert placement.hosts == ["127.0.0.1"] * 2


def test_ranks_with_a_shaped_network_get_a_separate_network(pool: LocalPool) -> None:
    pool.files.write_status([LocalWorker("w-0", alive=True), LocalWorker("w-1", alive=True)])
    placement = pool.place(tuple(pool.pods()), WorkerSpec(max_bandwidth=20.0))
    assert placement.hosts == [attachment.address for attachment in placement.attachments]
    assert placement.master_addr == placement.hosts[0]
    first, second = map(IPv4Address, placement.hosts)
    assert (int(second) - int(first), first in IPv4Network("198.18.0.0/15")) == (1, True)
    assert [attachment.shaping for attachment in placement.attachments] == [Shaping(20.0)] * 2
