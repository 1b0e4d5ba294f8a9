"""A rank that trains by PyTorch's gloo, until one of its run hangs as it was told.

It is run as ``rank.py HANG CULPRIT SEED FOLDER``. The lines that end with ``# here`` are those that
a verdict shall name.
"""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


def sleep(folder: Path) -> None:
    """Sleep."""
    time.sleep(1000)  # here


def lock(folder: Path) -> None:
    """Wait for a lock that nobody releases."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # here


def interpreter(folder: Path) -> None:
    """Hold the interpreter's lock in C."""
    read, _ = os.pipe()
    ctypes.PyDLL(None).read(read, ctypes.create_string_buffer(1), 1)  # here


def stopped(folder: Path) -> None:
    """Be stopped by a signal."""
    os.kill(os.getpid(), signal.SIGSTOP)  # here


def endless(folder: Path) -> None:
    """Loop without an end."""
    number = 0
    while True:  # here
        number += 1  # here


def fifo(folder: Path) -> None:
    """Read what nobody writes."""
    path = folder / "fifo"
    os.mkfifo(path)
    path.read_bytes()  # here


def loader(folder: Path) -> None:
    """Wait for a process that loads data, and has died."""
    process = multiprocessing.get_context("fork")
    queue: Any = process.Queue()
    worker = process.Process(target=time.sleep, args=(1000,))
    worker.start()
    worker.kill()
    queue.get()  # here


def disk(folder: Path) -> None:
    """Write to a disk that is full."""
    with Path("/dev/full").open("w") as file:
        file.write("a checkpoint")


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


def left(folder: Path) -> None:
    """End as if all were done."""
    os._exit(0)


def network(folder: Path) -> None:
    """Have the network cut by whoever watches this; then all go on."""
    (folder / "cut").touch()
    while not (folder / "is-cut").exists():
        time.sleep(0.01)


HANGS: dict[str, Callable[[Path], None]] = {
    hang.__name__: hang
    for hang in (
        *(sleep, lock, interpreter, stopped, endless, fifo, loader, disk),
        *(other_name, other_size, skipped, left, network),
    )
}


def train(hang: str, culprit: int, seed: int, folder: Path) -> None:
    """Train, and hang at a step that the seed chooses."""
    last = random.Random(seed).randrange(3, 30)  # noqa: S311 - no secret
    gradient = torch.ones(3)
    for step in range(1000):
        if step == last:
            (folder / f"begun-{dist.get_rank()}").touch()
            if dist.get_rank() == culprit:
                HANGS[hang](folder)
        dist.all_reduce(gradient)


if __name__ == "__main__":
    place = Path(sys.argv[4])
    if sys.argv[1] == "network":
        with Path("/run/netns", place.name).open() as space:
            assert ctypes.CDLL(None).setns(space.fileno(), _NEW_NETWORK) == 0
    dist.init_process_group("gloo")
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), place)
