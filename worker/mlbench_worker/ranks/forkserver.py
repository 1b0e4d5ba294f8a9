"""A fork server: a process that has imported PyTorch, and is forked for each official task.

``python -m mlbench_worker.ranks.forkserver FD`` waits for requests on a socket of the agent
(``agent/fork_servers.py``). Each forked process becomes a child of the agent. It has the
environment, cores, folder, threads and random numbers of a new interpreter, without the time to
import PyTorch.

Only the hash seed is inherited from this process, because existing strings have their hashes
already. It is $PYTHONHASHSEED, or a seed that all processes of one agent share. Only official
tasks are forked, and a test holds that their losses do not depend on it.
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
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec  # noqa: F401 - tasks import it
import numpy as np
import threadpoolctl
import torch
import torch._dynamo
import torch.distributed


def main() -> None:
    """Fork for each request, until the agent has ended."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # The collector would copy pages that forked processes share.
    channel.send(b"ready")
    while True:
        order, files, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not order:
            os._exit(0)
        # The grandchild becomes a child of the agent, which adopts orphans.
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
    """Make this process equivalent to a new one, and return the name of the module to run."""
    os.setsid()
    os.sched_setaffinity(0, order["cpus"])
    os.chdir(order["working_dir"])
    for file, standard in zip(files, (sys.stdout, sys.stderr), strict=True):
        os.dup2(file, standard.fileno())
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environ"])
    # Update /proc/PID/environ, by which other processes recognize the run of this process.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # env_start and env_end in proc_pid_stat(5); the first two fields were cut off.
    start, end = int(fields[47]), int(fields[48])
    text = b"".join(b"%b=%b\0" % pair for pair in os.environb.items())
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
    if folders := os.environ.get("PYTHONPATH"):
        # Run the ``sitecustomize`` of a source, like a new interpreter.
        sys.path.insert(0, folders.split(os.pathsep)[0])
        sys.modules.pop("sitecustomize", None)
        with suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")
    # Libraries read these variables only when they are loaded.
    threadpoolctl.threadpool_limits(len(order["cpus"]), user_api="blas")
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    np.random.seed()
    torch.default_generator.seed()
    sys.argv = order["arguments"]
    return sys.argv[0]


if __name__ == "__main__":
    main()
