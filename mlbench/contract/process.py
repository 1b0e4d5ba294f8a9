"""Which of a run's processes this one is.

A worker's command is one process with the worker's rank, unless it starts several: by torchrun, or
by itself with torch.multiprocessing. These have the ranks of their process group.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from mlbench.contract import names


@dataclass(frozen=True)
class Process:
    """A process's rank, among how many, and how often torchrun has begun it anew."""

    rank: int = 0
    world_size: int = 1
    restart: int = 0


def of_worker(environ: Mapping[str, str]) -> Process:
    """Return the rank of a worker, which its process has if it is the only one."""
    rank, size = _number(environ, names.ENV_RANK), _number(environ, names.ENV_WORLD_SIZE)
    return Process(rank or 0, size or 1)


def this_process(environ: Mapping[str, str]) -> Process:
    """Return this process's rank as its process group says, or else as its environment does.

    A group that fewer processes joined than there are workers is one worker's own, as torchrun's
    ``--standalone`` makes it: then a rank counts from the first of its worker.
    """
    worker = of_worker(environ)
    if environ.get(names.ENV_LAUNCHER) == "torchrun":
        return worker  # torchrun starts a recorder for each process
    rank, size = _group() or (_number(environ, "RANK"), _number(environ, "WORLD_SIZE"))
    if rank is None or size is None or rank >= size:
        return worker
    restart = _number(environ, "TORCHELASTIC_RESTART_COUNT") or 0
    nodes = _number(environ, "GROUP_WORLD_SIZE") or worker.world_size
    if min(nodes, size) < worker.world_size:
        return Process(worker.rank * size + rank, worker.world_size * size, restart)
    return Process(rank, size, restart)


def _group() -> tuple[int, int] | None:
    """Return rank and size of PyTorch's process group; None if it has not imported or begun one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not getattr(distributed, "is_initialized", bool)():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() else None
