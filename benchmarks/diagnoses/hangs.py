"""Hangs of a single process that do not depend on the framework, with the training they stop.

A verdict has to name the line that ends with ``# here``.
"""

import ctypes
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


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


def exited(folder: Path) -> None:
    """Exit as if the training were finished."""
    os._exit(0)


HANGS: dict[str, Callable[[Path], None]] = {
    hang.__name__: hang
    for hang in (sleep, lock, interpreter, stopped, endless, fifo, loader, disk, exited)
}


def train(
    take_step: Callable[[], object], rank: int, ways: Mapping[str, Callable[[Path], None]] = HANGS
) -> None:
    """Train, and hang at a step that the seed chooses: in the way that the arguments say."""
    hang, culprit, seed, place = sys.argv[1:]
    folder = Path(place)
    last = random.Random(int(seed)).randrange(3, 30)  # noqa: S311 - no secret
    for step in range(1000):
        if step == last:
            (folder / f"begun-{rank}").touch()
            if hang == "everywhere" or rank == int(culprit):
                ways[hang](folder)
        take_step()
