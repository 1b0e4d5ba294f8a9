"""What a source hands to the collector: the resource use of one pod, and the promise it keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Network:
    """Bytes through a network namespace since it exists, the loopback interface left out."""

    receive_bytes: int
    transmit_bytes: int


@dataclass(frozen=True)
class Disk:
    """Bytes fetched from storage and sent to it since the pod's first process started.

    What the page cache answered is not read; what was written counts when it entered the cache.
    """

    read_bytes: int
    write_bytes: int


@dataclass(frozen=True)
class PodUsage:
    """The resource use of one container of one pod, as read at one moment.

    What is None is unknown, and its series are left out: a gap is right where a guess would be
    taken for a counter that fell.
    """

    namespace: str
    pod: str
    container: str
    node: str
    cpu_user_seconds: float
    """CPU time in user mode since the pod's first process started; never falls."""
    cpu_usage_seconds: float
    """CPU time in user and kernel mode since the pod's first process started; never falls."""
    memory_usage_bytes: int
    """Memory held, pages of files included."""
    memory_working_set_bytes: int
    """Memory held that the kernel cannot take back by dropping pages of files."""
    threads: int
    processes: int
    disk: Disk | None
    network: Network | None


class Source(Protocol):
    """A place where usage is read, e.g. /proc on this machine, or a kubelet."""

    name: str
    """Tells this source from others: the value of the label ``source``."""

    def read(self) -> Sequence[PodUsage]:
        """Return the use of every pod that the source sees now, each pod once.

        It may raise anything: the collector turns that into ``mlbench_exporter_source_up 0``.
        """
