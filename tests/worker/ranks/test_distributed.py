"""Ranks join each other, compute sums, notice lost peers, and apply device options."""

import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from mlbench.benchmarks.task_options import Backend, ImageModelOptions
from mlbench_worker.ranks.distributed import DeviceError, World, WorldError, join_world, set_up
from tests.support.processes import run_text
from tests.support.ranks import finish, start_ranks

# Each rank adds 10^rank, and swaps values. It prints the results, and its listening addresses.
_TALK = """
import os, psutil, torch
from mlbench_worker.ranks.distributed import join_world
with join_world() as world:
    mine = torch.tensor([10.0 ** world.rank])
    first = mine.clone()
    world.sum_(mine)
    world.broadcast_(first)
    listening = {c.laddr.ip for c in psutil.Process().net_connections() if c.status == "LISTEN"}
    interface = os.environ["GLOO_SOCKET_IFNAME"]
    [theirs] = world.swap(torch.arange(70_000) + world.rank, [1 - world.rank])
    sent = theirs.equal(torch.arange(70_000) + 1 - world.rank)
    print(mine.item(), first.item(), torch.get_num_threads(), interface[:2], *listening, sent)
"""

# Rank 1 joins, and then sleeps without taking part.
_STALL = """
import sys, time, torch
from datetime import timedelta
from mlbench_worker.ranks import distributed
distributed._LOST_PEER_SECONDS = 0.0
with distributed.join_world(timeout=timedelta(seconds=1)) as world:
    if world.rank == 1:
        time.sleep(60)
    eval(sys.argv[1])
"""


def test_a_single_rank_does_not_communicate() -> None:
    with join_world(environ={}) as world:
        assert world == World(rank=0, size=1)
        values = torch.tensor([1.0, 2.0])
        world.sum_(values)
        world.broadcast_(values)
        assert values.tolist() == [1.0, 2.0]


def test_ranks_communicate_on_loopback_with_their_number_of_threads(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _TALK)
    assert [rank.output() for rank in ranks] == [("11.0 1.0 1 lo 127.0.0.1 True\n", "")] * 2


@pytest.mark.parametrize(
    "call",
    [
        "world.sum_(torch.ones(1))",
        pytest.param("world.gather(torch.ones(1))", marks=pytest.mark.slow),
        pytest.param("world.swap(torch.ones(1), [1])", marks=pytest.mark.slow),
    ],
)
def test_a_silent_peer_times_out(call: str, tmp_path: Path) -> None:
    waiting, silent = start_ranks(tmp_path, 2, "-c", _STALL, call)
    _, errors = waiting.output()
    silent.kill()
    assert waiting.returncode == 1
    assert "WorldError: rank 0 of 2 lost a peer:" in errors


_TWO = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
without_mpi = pytest.mark.skipif(dist.is_mpi_available(), reason="this PyTorch has MPI")


@pytest.mark.parametrize(
    ("backend", "environ", "said"),
    [
        ("gloo", {"RANK": "first"}, "RANK and WORLD_SIZE must be whole numbers"),
        ("gloo", {"RANK": "2", "WORLD_SIZE": "2"}, "RANK 2 is not within WORLD_SIZE 2"),
        ("gloo", {"RANK": "-1"}, "RANK -1 is not within WORLD_SIZE 1"),
        ("gloo", {"WORLD_SIZE": "0"}, "RANK 0 is not within WORLD_SIZE 0"),
        ("gloo", {"WORLD_SIZE": "2", "MASTER_PORT": "1"}, "MASTER_ADDR must be set for 2 ranks"),
        ("gloo", {**_TWO, "MASTER_PORT": "x"}, "peers: invalid literal"),
        ("gloo", {**_TWO, "MASTER_PORT": "0"}, "rank 0 of 2 could not join its peers"),
        pytest.param("mpi", {}, "this build of PyTorch has no MPI", marks=without_mpi),
        pytest.param("nccl", {}, "backend nccl: it needs NVIDIA GPUs", marks=without_gpu),
    ],
)
def test_a_world_that_cannot_be_joined_is_an_error(
    backend: Backend, environ: dict[str, str], said: str
) -> None:
    with (
        pytest.raises(WorldError, match=said),
        join_world(backend, environ, timeout=timedelta(seconds=0.2)),
    ):
        pass


@pytest.mark.parametrize(("total", "size"), [(7, 1), (7, 7), (128, 3), (364, 3)])
def test_shards_cover_all_items(total: int, size: int) -> None:
    items = range(total)
    shards = [items[World(rank, size).shard(total)] for rank in range(size)]
    assert [item for shard in shards for item in shard] == list(items)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


# The work of rank 1 takes longer than the timeout for a lost peer.
_SLOW = """
import time
from datetime import timedelta
from mlbench_worker.ranks.distributed import join_world
with join_world(timeout=timedelta(seconds=2)) as world:
    def work():
        time.sleep(3 * world.rank)
        return world.rank
    print(world.prepare(work))
"""

_FAILING = """
import time
from mlbench_worker.ranks import distributed
distributed._LOST_PEER_SECONDS = 0.0
with distributed.join_world() as world:
    def work():
        if world.rank == 1:
            raise LookupError("no such data")
        time.sleep(1000)
    world.prepare(work)
"""


def test_preparation_waits_for_the_slowest_rank(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _SLOW)
    assert [rank.output() for rank in ranks] == [("0\n", ""), ("1\n", "")]


def test_a_failing_rank_ends_all(tmp_path: Path) -> None:
    waiting, failing = start_ranks(tmp_path, 2, "-c", _FAILING)
    assert "LookupError: no such data" in failing.output()[1]
    assert "WorldError: rank 0 of 2 lost a peer:" in waiting.output()[1]
    assert [waiting.returncode, failing.returncode] == [1, 1]


_CPU = ImageModelOptions(device="cpu")


def make_model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            ImageModelOptions(device="cuda"),
            "device cuda: this PyTorch finds no usable GPU",
            marks=without_gpu,
        ),
        (replace(_CPU, precision="tf32"), "precision tf32: only GPUs have it"),
        (replace(_CPU, precision="fp16"), "precision fp16: only GPUs have it"),
        (replace(_CPU, compile=True), r"needs a C\+\+ compiler, but g\+\+ is not"),
    ],
)
def test_options_that_this_machine_lacks_are_refused(
    options: ImageModelOptions, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=said):
        set_up(options, World())


@pytest.mark.parametrize(
    ("options", "layout", "dtype"),
    [
        (_CPU, torch.channels_last, torch.float32),
        (replace(_CPU, channels_last=False), torch.contiguous_format, torch.float32),
        (replace(_CPU, precision="bf16"), torch.channels_last, torch.bfloat16),
    ],
)
def test_memory_format_and_precision_are_applied(
    options: ImageModelOptions, layout: torch.memory_format, dtype: torch.dtype
) -> None:
    execution = set_up(options, World())
    images, model = execution.images(torch.rand(2, 3, 8, 8)), execution.place(make_model())
    assert images.is_contiguous(memory_format=layout)
    assert next(model.parameters()).is_contiguous(memory_format=layout)
    with execution.autocast():
        assert model(images).dtype == dtype
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not execution.make_scaler().is_enabled()


# A separate process, because torch.compile raises deprecation warnings from PyTorch itself.
_COMPILE = """
import torch
from torch import nn
from mlbench.benchmarks.task_options import Backend, ImageModelOptions
from mlbench_worker.ranks.distributed import World, set_up
execution = set_up(ImageModelOptions(device="cpu", compile=True), World())
model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.ReLU())
images = torch.rand(4, 3, 2, 2)
translated = execution.compiled(model)
print(translated is model, torch.allclose(translated(images), model(images), atol=1e-6))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
def test_a_compiled_model_computes_the_same() -> None:
    done = run_text([sys.executable, "-c", _COMPILE], check=True)
    assert done.stdout == "False True\n"


# Fills and frees a large tensor repeatedly, and prints the number of page faults.
_STEPS = """
import resource, sys, torch
from mlbench.benchmarks.task_options import DeviceOptions
from mlbench_worker.ranks.distributed import World, set_up
if sys.argv[1] == "keep":
    set_up(DeviceOptions("cpu"), World())
for _ in range(10):  # until the heap has found its shape
    torch.ones(9 << 20)  # more than glibc keeps by itself, 32 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(9 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_reused_memory_causes_no_page_faults(tmp_path: Path) -> None:
    kept, given_back = (
        int(finish(start_ranks(tmp_path, 1, "-c", _STEPS, mode))[0])
        for mode in ("keep", "give back")
    )
    assert kept < given_back / 20
