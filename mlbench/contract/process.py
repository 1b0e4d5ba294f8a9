"""Rank of the current process among all training processes of a run.

A worker's command is one process with the worker's rank, unless it starts several, with torchrun
or torch.multiprocessing. Those have the ranks of their process group.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from mlbench.contract import names


@dataclass(frozen=True)
class ProcessRank:
    """The rank of a process, the number of processes, and the number of restarts by torchrun."""

    rank: int = 0
    world_size: int = 1
    restart: int = 0


def of_worker(environ: Mapping[str, str]) -> ProcessRank:
    """Return the rank of a worker, which is also the rank of its process if it has only one."""
    rank, size = _number(environ, names.ENV_RANK), _number(environ, names.ENV_WORLD_SIZE)
    return ProcessRank(rank or 0, size or 1)


def this_process(environ: Mapping[str, str]) -> ProcessRank:
    """Return the rank of this process from its process group, or else from its environment.

    A group with fewer processes than there are workers belongs to a single worker, as with
    torchrun's ``--standalone``. Its ranks are then counted from the worker's first rank.
    """
    worker = of_worker(environ)
    if environ.get(names.ENV_LAUNCHER) == "torchrun":
        return worker  # torchrun starts a recorder for each process
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and getattr(distributed, "is_initialized", bool)():
        rank, size = distributed.get_rank(), distributed.get_world_size()
    else:
        rank, size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if rank is None or size is None or rank >= size:
        return worker
    restart = _number(environ, "TORCHELASTIC_RESTART_COUNT") or 0
    nodes = _number(environ, "GROUP_WORLD_SIZE") or worker.world_size
    if min(nodes, size) < worker.world_size:
        return ProcessRank(worker.rank * size + rank, worker.world_size * size, restart)
    return ProcessRank(rank, size, restart)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() else None
