"""A process that has imported PyTorch, and is forked for each official task (a fork server).

``python -m mlbench_worker.ranks.forkserver FD`` waits for orders at a socket of the agent's
(``agent/forkserver.py``). What it forks becomes a child of the agent, and has the environment,
cores, folder, threads and random numbers of a new interpreter, without the time to import PyTorch.

The hash seed alone is that of this process, because existing strings have their hashes already.
That is $PYTHONHASHSEED, or a seed that all processes of one agent share. Only official tasks are
forked, and a test holds that their losses do not depend on it.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec  # noqa: F401 - tasks import it
import numpy as np
import threadpoolctl
import torch
import torch._dynamo
import torch.distributed

from mlbench.contract import names

_MOST_BYTES = 1 << 20
# Of /proc/PID/stat, without number and name: see proc_pid_stat(5).
_ENV_START, _ENV_END = 47, 48
_THREADS = "OMP_NUM_THREADS"


def main() -> None:
    """Fork for each order, until the agent has ended."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # The collector would copy pages that forked processes share.
    channel.send(b"ready")
    while True:
        order, files, _, _ = socket.recv_fds(channel, _MOST_BYTES, 2)
        if not order:
            os._exit(0)
        # The child of one that ends becomes the agent's, which adopts orphans.
        if (middle := os.fork()) == 0:
            middle = os.getpid()
            if os.fork() == 0:
                break
            os._exit(0)
        os.waitpid(middle, 0)
        for file in files:
            os.close(file)
    module = _become(json.loads(order), files)
    while os.getppid() == middle:
        time.sleep(0.0002)
    channel.send(str(os.getpid()).encode())
    channel.close()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _become(order: Mapping[str, Any], files: Sequence[int]) -> str:
    """Make this process what a new one would be, and return the module to run."""
    os.setsid()
    os.sched_setaffinity(0, order["cpus"])
    os.chdir(order["working_dir"])
    for file, standard in zip(files, (sys.stdout, sys.stderr), strict=True):
        os.dup2(file, standard.fileno())
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environ"])
    _show_environment()
    if names.ENV_AUTOPSY in os.environ:
        _customize()
    _set_threads(len(order["cpus"]))
    np.random.seed()
    torch.default_generator.seed()
    sys.argv = order["arguments"]
    return sys.argv[0]


def _customize() -> None:
    """Run the agent's ``sitecustomize``, as a new interpreter would."""
    sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


def _show_environment() -> None:
    """Write the environment to where /proc shows it: by that, others see whose process this is."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    text = b"".join(b"%b=%b\0" % pair for pair in os.environb.items())
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def _set_threads(cores: int) -> None:
    """Have as many threads as the variables say, which libraries read when they are loaded."""
    threadpoolctl.threadpool_limits(cores, user_api="blas")
    if _THREADS in os.environ:
        torch.set_num_threads(int(os.environ[_THREADS]))


if __name__ == "__main__":
    main()
