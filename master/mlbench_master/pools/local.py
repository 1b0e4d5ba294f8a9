"""The local pool: worker processes on this machine, which the stack's supervisor starts and ends.

The pool writes how many are wanted, the supervisor writes which there are.
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
from mlbench_master.pools.base import Placement, PodStatus

_LOOPBACK = "127.0.0.1"
# Where ranks meet: below the ports that systems give to connections and to listeners that ask for
# any, one of which could take it before rank 0 listens there.
_PORTS = range(20_000, 32_768)
# What RFC 2544 keeps for benchmarks of networks: no host that a process may want has its address.
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
        """Tell the supervisor how many workers to run; they are all of one shape."""
        self.files.write_wanted(workers)

    def place(self, pods: tuple[PodStatus, ...], shape: WorkerSpec) -> Placement:
        """Let the workers meet at a free port.

        If what they send is to be shaped, they meet in a network of their own.
        """
        shaping = part(Shaping, shape)
        attachments = attach(len(pods), shaping) if shaping else ()
        meet_at = attachments[0].address if attachments else _LOOPBACK
        return Placement(meet_at, _free_port(), pods, attachments, sys.executable)

    def explain(self) -> str:
        """Return which workers do not run, and where to read why."""
        troubled = (worker for worker in self.files.read_status() if worker.trouble)
        return "; ".join(f"{one.name} is not there: {one.trouble}" for one in troubled)


def attach(workers: int, shaping: Shaping) -> tuple[Attachment, ...]:
    """Return an attachment for each worker, at addresses that hardly any other attempt has had."""
    first = 1 + secrets.randbelow(_BENCHMARKS.num_addresses - workers - 1)
    addresses = (str(_BENCHMARKS[first + rank]) for rank in range(workers))
    return tuple(Attachment(address, _BENCHMARKS.prefixlen, shaping) for address in addresses)


def _free_port() -> int:
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_LOOPBACK, port))
            return port
