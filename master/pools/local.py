"""The local pool: worker processes on this machine, which the stack's supervisor starts and ends.

The pool writes how many are wanted, the supervisor writes which there are.
"""

import os
import platform
import socket
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from master.pools.base import Placement, PodStatus, Shape
from mlbench.pool import PoolFiles

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class LocalPool:
    """Worker processes ``local-mlbench-worker-0…`` on this machine."""

    files: PoolFiles

    def pods(self) -> list[PodStatus]:
        """Return the workers that the supervisor has started."""
        return [
            PodStatus(
                name=worker.name,
                number=number,
                phase="Running" if worker.alive else "Failed",
                ip=_LOOPBACK,
                node=platform.node(),
                labels={"app": "mlbench", "component": "worker", "release": "local"},
                trouble=worker.trouble,
            )
            for number, worker in enumerate(self.files.read_status())
        ]

    def scale(self, workers: int, shape: Shape, busy: AbstractSet[str]) -> None:
        """Tell the supervisor how many workers to run; they are all of one shape."""
        self.files.write_wanted(workers)

    def place(self, workers: Sequence[str], num_cpus: float | None) -> Placement | None:
        """Let the workers meet at a free port, and share the cores out among them."""
        cores = sorted(os.sched_getaffinity(0))
        # For this pool, the API takes whole cores only.
        whole = None if num_cpus is None else int(num_cpus)
        by_name = {pod.name: pod for pod in self.pods()}
        if not all(name in by_name for name in workers):
            return None
        pods = tuple(by_name[name] for name in workers)
        shares = share_cores(cores, len(workers), whole)
        return Placement(_LOOPBACK, _free_port(), shares, pods, python=sys.executable)

    def explain(self) -> str:
        """Return which workers do not run, and where to read why."""
        troubled = (pod for pod in self.pods() if pod.trouble)
        return "; ".join(f"{pod.name} is not there: {pod.trouble}" for pod in troubled)


def share_cores(
    cores: Sequence[int], workers: int, num_cpus: int | None
) -> tuple[tuple[int, ...], ...]:
    """Return each worker's cores: ``num_cpus``, or an equal share, but at least one.

    No two workers share a core as long as there are enough.
    """
    each = min(num_cpus or max(1, len(cores) // workers), len(cores))
    return tuple(
        tuple(sorted(cores[(worker * each + i) % len(cores)] for i in range(each)))
        for worker in range(workers)
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
