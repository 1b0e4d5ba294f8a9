"""A rank that trains with PyTorch's gloo until the culprit of its run hangs.

It is run as ``rank.py HANG CULPRIT SEED FOLDER``. A verdict has to name the line that ends with
``# here``.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.diagnoses import hangs

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


def other_name(folder: Path) -> None:
    """Call another collective than the others."""
    others = (dist.get_rank() + 1) % dist.get_world_size()
    dist.broadcast(torch.ones(3), others)  # here


def other_size(folder: Path) -> None:
    """Give a collective more than the others do."""
    dist.all_reduce(torch.ones(30_000))  # here


def skipped(folder: Path) -> None:
    """Go on to the next collective without one."""
    dist.all_gather([torch.ones(3) for _ in range(dist.get_world_size())], torch.ones(3))  # here


def network(folder: Path) -> None:
    """Have the observer cut the network; then all ranks continue."""
    (folder / "cut").touch()
    while not (folder / "is-cut").exists():
        time.sleep(0.01)


def everywhere(folder: Path) -> None:
    """Do what all ranks do, which takes for ever."""
    time.sleep(1000)


HANGS: dict[str, Callable[[Path], None]] = hangs.HANGS | {
    hang.__name__: hang for hang in (other_name, other_size, skipped, network, everywhere)
}


if __name__ == "__main__":
    if sys.argv[1] == "network":
        with Path("/run/netns", Path(sys.argv[4]).name).open() as space:
            assert ctypes.CDLL(None).setns(space.fileno(), _NEW_NETWORK) == 0
    dist.init_process_group("gloo")
    gradient = torch.ones(3)
    hangs.train(lambda: dist.all_reduce(gradient), dist.get_rank(), HANGS)
