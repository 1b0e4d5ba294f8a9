"""Data model: the exporter's series, their samples, and the protocol of sources.

Series have the names and labels of cAdvisor, if it has them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mlbench.contract import names

WORKER: Final = "worker"
"""Container of a worker pod in which the agent and the training run."""

Family = CounterMetricFamily | GaugeMetricFamily


@dataclass(frozen=True, eq=False)
class ExportedSeries:
    """Name, help text and labels of one series."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    labels: tuple[str, ...]
    name: str
    help: str


class SourceError(Exception):
    """A source cannot be read at present. The message says why and, if known, what to do."""


@dataclass(frozen=True, slots=True)
class ExportedSample:
    """One value of a series."""

    series: ExportedSeries
    labels: tuple[str, ...]
    """Values of the labels, in the order of the series' labels."""
    value: float
    time: float | None = None
    """Time of the measurement in Unix seconds; None for the time of the scrape."""


class SeriesSource(Protocol):
    """A source of usage, such as /proc on this machine, or a kubelet."""

    name: str
    """Value of the label ``source``."""

    def read(self) -> Iterable[ExportedSample]:
        """Return the present samples: one for each series and set of labels.

        Unknown values are left out, because Prometheus would read a guess as a counter reset.

        Raises:
            SourceError: the source cannot be read completely; the earlier samples count.
        """


_CONTAINER_LABELS = ("namespace", "pod", "container", "node")
_GPU_LABELS = ("node", "gpu", "uuid", "pod")
_container_counter = partial(ExportedSeries, CounterMetricFamily, _CONTAINER_LABELS)
_container_gauge = partial(ExportedSeries, GaugeMetricFamily, _CONTAINER_LABELS)
_machine_gauge = partial(ExportedSeries, GaugeMetricFamily, ("node",))
_source_gauge = partial(ExportedSeries, GaugeMetricFamily, ("source",))
_gpu_gauge = partial(ExportedSeries, GaugeMetricFamily, _GPU_LABELS)

CPU_USAGE = _container_counter(
    "container_cpu_usage_seconds_total", "CPU time used, in user and kernel mode."
)
CPU_USER = _container_counter("container_cpu_user_seconds_total", "CPU time used in user mode.")
# The series of a container's limit are missing without a limit. The series of its pressure are
# missing if the kernel, or the kubelet before Kubernetes 1.33, does not report it.
CPU_PERIODS = _container_counter(
    "container_cpu_cfs_periods_total", "Periods in which the CPU limit was counted."
)
CPU_THROTTLED_PERIODS = _container_counter(
    "container_cpu_cfs_throttled_periods_total", "Periods in which the CPU limit was reached."
)
CPU_THROTTLED = _container_counter(
    "container_cpu_cfs_throttled_seconds_total",
    "Time that the CPU limit kept threads from running, summed over the cores.",
)
PRESSURES = (
    _container_counter(
        "container_pressure_cpu_waiting_seconds_total",
        "Time in which some process waited for a core.",
    ),
    _container_counter(
        "container_pressure_memory_waiting_seconds_total",
        "Time in which some process waited for memory to be freed.",
    ),
    _container_counter(
        "container_pressure_io_waiting_seconds_total",
        "Time in which some process waited for storage.",
    ),
)
MEMORY_USAGE = _container_gauge(
    "container_memory_usage_bytes", "Memory held, pages of files included."
)
MEMORY_WORKING_SET = _container_gauge(
    "container_memory_working_set_bytes",
    "Memory held, without pages of files, which the kernel can drop.",
)
MEMORY_LIMIT = _container_gauge(
    "container_spec_memory_limit_bytes",
    "Memory that the container may hold at most, where there is a limit.",
)
THREADS = _container_gauge("container_threads", "Threads of all processes.")
PROCESSES = _container_gauge(
    "container_processes", "Processes, without those that ended and wait to be reaped."
)
FS_READS = _container_counter(
    "container_fs_reads_bytes_total", "Bytes read from storage, not from the page cache."
)
FS_WRITES = _container_counter("container_fs_writes_bytes_total", "Bytes written to storage.")
NETWORK_RECEIVE = _container_counter(
    "container_network_receive_bytes_total",
    "Bytes received, if the pod has its own network namespace.",
)
NETWORK_TRANSMIT = _container_counter(
    "container_network_transmit_bytes_total",
    "Bytes sent, if the pod has its own network namespace.",
)

MACHINE_MEMORY = _machine_gauge("machine_memory_bytes", "Memory of the machine.")
MACHINE_CORES = _machine_gauge("machine_cpu_cores", "Logical CPU cores of the machine.")
NODE_PRESSURE = ExportedSeries(
    CounterMetricFamily,
    ("node", "resource"),
    "mlbench_node_pressure_seconds_total",
    "Time in which some process of the machine waited for a resource.",
)

SOURCE_UP = _source_gauge(
    "mlbench_exporter_source_up", "Whether the source could be read: 1, or 0 where it failed."
)
SOURCE_SECONDS = _source_gauge(
    "mlbench_exporter_source_duration_seconds", "Time that reading the source took."
)

GPU_UTILIZATION = _gpu_gauge(
    "mlbench_gpu_utilization_ratio", "Part of the time in which the GPU computed, from 0 to 1."
)
GPU_MEMORY_USED = _gpu_gauge("mlbench_gpu_memory_used_bytes", "Memory of the GPU in use.")
GPU_MEMORY_TOTAL = _gpu_gauge("mlbench_gpu_memory_total_bytes", "Memory of the GPU.")
GPU_POWER = _gpu_gauge("mlbench_gpu_power_watts", "Power that the GPU draws.")
GPU_ENERGY = ExportedSeries(
    CounterMetricFamily,
    _GPU_LABELS,
    names.GPU_ENERGY,
    "Energy that the GPU used since its driver was loaded.",
)
