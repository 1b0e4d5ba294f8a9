"""Ranks find each other, agree on sums, and notice when one is missing."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.conftest import free_port
from tests.worker.ranks import start_ranks
from worker.training.distributed import World, WorldError, join_world

# Each rank adds 10^rank. It prints the sum, rank 0's number, and where it listens.
_TALK = """
import os, psutil, torch
from worker.training.distributed import join_world
with join_world() as world:
    mine = torch.tensor([10.0 ** world.rank])
    first = mine.clone()
    world.sum_(mine)
    world.broadcast_(first)
    listening = {c.laddr.ip for c in psutil.Process().net_connections() if c.status == "LISTEN"}
    interface = os.environ["GLOO_SOCKET_IFNAME"]
    print(mine.item(), first.item(), torch.get_num_threads(), interface[:2], *listening)
"""

# Rank 1 joins, and then neither takes part nor ends.
_STALL = """
import time, torch
from datetime import timedelta
from worker.training.distributed import join_world
with join_world(timeout=timedelta(seconds=1)) as world:
    if world.rank == 1:
        time.sleep(60)
    world.sum_(torch.ones(1))
"""


def test_alone_there_is_nobody_to_talk_to() -> None:
    with join_world(environ={}) as world:
        assert world == World(rank=0, size=1)
        values = torch.tensor([1.0, 2.0])
        world.sum_(values)
        world.broadcast_(values)
        assert values.tolist() == [1.0, 2.0]


def test_ranks_sum_and_share_on_loopback_with_the_threads_they_were_given(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _TALK)
    assert [rank.output() for rank in ranks] == [("11.0 1.0 1 lo 127.0.0.1\n", "")] * 2


def test_a_silent_peer_is_given_up(tmp_path: Path) -> None:
    waiting, silent = start_ranks(tmp_path, 2, "-c", _STALL)
    _, errors = waiting.output()
    silent.process.kill()
    silent.output()
    assert waiting.process.returncode == 1
    assert "WorldError: rank 0 of 2 lost a peer:" in errors


def test_a_peer_that_does_not_come_is_given_up() -> None:
    environ = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    with (
        pytest.raises(WorldError, match="rank 0 of 2 could not join its peers"),
        join_world(environ=environ, timeout=timedelta(seconds=1)),
    ):
        pass


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"RANK": "first"}, "RANK and WORLD_SIZE must be whole numbers"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK 2 is not within WORLD_SIZE 2"),
        ({"RANK": "-1"}, "RANK -1 is not within WORLD_SIZE 1"),
        ({"WORLD_SIZE": "0"}, "RANK 0 is not within WORLD_SIZE 0"),
        ({"WORLD_SIZE": "2", "MASTER_PORT": "1"}, "MASTER_ADDR must be set for 2 ranks"),
        (
            {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "x"},
            "could not join its peers: invalid literal",
        ),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(WorldError, match=said), join_world(environ=environ):
        pass


@pytest.mark.skipif(dist.is_mpi_available(), reason="this PyTorch has MPI")
def test_mpi_is_refused_where_pytorch_has_none() -> None:
    with pytest.raises(WorldError, match="this build of PyTorch has no MPI"), join_world("mpi", {}):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_nccl_is_refused_without_a_gpu() -> None:
    with (
        pytest.raises(WorldError, match="backend nccl: it needs NVIDIA GPUs"),
        join_world("nccl", {}),
    ):
        pass


def test_an_error_that_is_no_lost_peer_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), World(0, 2).noticing_lost_peers():
        raise RuntimeError("out of memory")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("total", [7, 128, 364])
def test_shards_make_up_the_whole(total: int, size: int) -> None:
    items = range(total)
    shards = [items[World(rank, size).shard(total)] for rank in range(size)]
    assert [item for shard in shards for item in shard] == list(items)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
