"""The resource use of a pod whose processes were added up, and its samples."""

from collections.abc import Iterator
from dataclasses import dataclass

from exporter import series
from exporter.sample import Sample


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

    def samples(self) -> Iterator[Sample]:
        """Yield a sample of each figure that is known."""
        figures = {
            series.CPU_USAGE: self.cpu_usage_seconds,
            series.CPU_USER: self.cpu_user_seconds,
            series.MEMORY_USAGE: self.memory_usage_bytes,
            series.MEMORY_WORKING_SET: self.memory_working_set_bytes,
            series.THREADS: self.threads,
            series.PROCESSES: self.processes,
        }
        if self.disk:
            figures[series.FS_READS] = self.disk.read_bytes
            figures[series.FS_WRITES] = self.disk.write_bytes
        if self.network:
            figures[series.NETWORK_RECEIVE] = self.network.receive_bytes
            figures[series.NETWORK_TRANSMIT] = self.network.transmit_bytes
        labels = (self.namespace, self.pod, self.container, self.node)
        for of, value in figures.items():
            yield Sample(of, labels, value)
