"""Local pool: worker processes on this machine, which the stack's supervisor starts and ends.

The pool writes the desired number of workers, the supervisor writes the existing ones.
"""

import os
import platform
import secrets
import socket
import sys
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network

from mlbench.contract.assignment import Attachment
from mlbench.contract.runspec import WorkerSpec, part
from mlbench.contract.shaping import Shaping
from mlbench.local.pool import PoolFiles
from mlbench_master.pools.pool import Placement, PodStatus

_LOOPBACK = "127.0.0.1"
# Ports for the rendezvous of ranks. They are below the range from which systems assign ports to
# connections, which could take the port before rank 0 listens there.
_PORTS = range(20_000, 32_768)
# RFC 2544 reserves these addresses for network benchmarks, so no host that a process needs has one.
_BENCHMARKS = IPv4Network("198.18.0.0/15")


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
                port=worker.port,
            )
            for number, worker in enumerate(self.files.read_status())
        ]

    def cores(self) -> tuple[int, ...]:
        """Return the cores of this machine."""
        return tuple(sorted(os.sched_getaffinity(0)))

    def scale(self, workers: int, shape: WorkerSpec, busy: AbstractSet[str]) -> None:
        """Tell the supervisor how many workers to run; all have the same shape."""
        self.files.write_wanted(workers)

    def place(self, pods: tuple[PodStatus, ...], shape: WorkerSpec) -> Placement:
        """Choose a free port; if traffic is shaped, also a separate network for the workers."""
        attachments: tuple[Attachment, ...] = ()
        if shaping := part(Shaping, shape):
            # At random addresses, because ranks of an earlier attempt may still have theirs.
            first = 1 + secrets.randbelow(_BENCHMARKS.num_addresses - len(pods) - 1)
            addresses = (str(_BENCHMARKS[first + rank]) for rank in range(len(pods)))
            attachments = tuple(
                Attachment(address, _BENCHMARKS.prefixlen, shaping) for address in addresses
            )
        address = attachments[0].address if attachments else _LOOPBACK
        while True:
            port = secrets.choice(_PORTS)
            with socket.socket() as probe, suppress(OSError):
                probe.bind((_LOOPBACK, port))
                return Placement(address, port, pods, attachments, sys.executable)

    def explain(self) -> str:
        """Return which workers do not run, and where to read why."""
        troubled = (worker for worker in self.files.read_status() if worker.trouble)
        return "; ".join(f"{worker.name} does not run: {worker.trouble}" for worker in troubled)
