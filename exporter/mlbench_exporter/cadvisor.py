"""Parse the samples of worker pods and their node from a kubelet's /metrics/cadvisor.

The response of a full node has megabytes in Prometheus's text format. Lines are selected by the
name of their metric, and only the exported ones are parsed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mlbench_exporter import exported_series as series
from mlbench_exporter.exported_series import WORKER, ExportedSample, ExportedSeries, SourceError

_INFIX: Final = "-mlbench-worker-"
_LABEL = re.compile(r'(\w+)="([^"\\]*(?:\\.[^"\\]*)*)"')

_MACHINE = {of.name.encode(): of for of in (series.MACHINE_MEMORY, series.MACHINE_CORES)}
_OF_PODS = (series.NETWORK_RECEIVE, series.NETWORK_TRANSMIT)
_OF_CONTAINERS = (
    *(series.CPU_USAGE, series.CPU_USER, series.THREADS, series.PROCESSES),
    *(series.CPU_PERIODS, series.CPU_THROTTLED_PERIODS, series.CPU_THROTTLED, *series.PRESSURES),
    *(series.MEMORY_USAGE, series.MEMORY_WORKING_SET, series.MEMORY_LIMIT),
    *(series.FS_READS, series.FS_WRITES),
)
_FIGURES = {of.name.encode(): of for of in (*_OF_CONTAINERS, *_OF_PODS)}


@dataclass(frozen=True)
class WorkerPods:
    """Worker pods of a release: ``{release}-mlbench-worker-{number}`` in its namespace."""

    namespace: str
    release: str

    def include(self, namespace: str, pod: str) -> bool:
        """Return whether a pod is a worker pod of the release."""
        prefix = self.release + _INFIX
        is_worker = pod.startswith(prefix) and pod.removeprefix(prefix).isdecimal()
        return is_worker and namespace == self.namespace


@dataclass
class Figure:
    """A value of one cgroup, summed over cAdvisor's interfaces, disks or cores."""

    value: float = 0.0
    time: float | None = None
    """Unix seconds; None if cAdvisor reports no time, as for constants."""


def parse(lines: Iterable[bytes], workers: WorkerPods, node: str) -> list[ExportedSample]:
    """Return the samples of the worker pods and of the node, each with cAdvisor's own time.

    Raises:
        SourceError: the response is incomplete, or not cAdvisor's.
    """
    machine: dict[ExportedSeries, float] = {}
    # Keys: series, pod and container, then cgroup.
    figures: defaultdict[tuple[ExportedSeries, str, str], defaultdict[str, Figure]]
    figures = defaultdict(lambda: defaultdict(Figure))
    # Skips most lines of a full node: other metrics, other pods, and sandboxes.
    of_workers = f'pod="{workers.release}{_INFIX}'.encode()
    for line in lines:
        name, _, rest = line.partition(b"{")
        if name in _MACHINE:
            machine[_MACHINE[name]] = parse_line(rest)[1].value
            continue
        of = _FIGURES.get(name)
        if of and of_workers in rest and (of in _OF_PODS or b'container=""' not in rest):
            labels, parsed = parse_line(rest)
            pod, container = labels.get("pod", ""), labels.get("container", "")
            # Left out: other figures of a pod's sandbox, whose name is "POD" or empty, and the sums
            # of a pod, which have no container.
            is_exported = container not in {"", "POD"}
            if of in _OF_PODS:
                # The interfaces belong to the sandbox, which the containers of a pod share.
                container, is_exported = WORKER, labels.get("interface") != "lo"
            if is_exported and workers.include(labels.get("namespace", ""), pod):
                figure = figures[of, pod, container][labels.get("id", "")]
                figure.value += parsed.value
                figure.time = parsed.time

    # The machine's metrics come last, so their presence shows that the response is complete.
    if machine.keys() != set(_MACHINE.values()):
        raise SourceError("incomplete response: metrics of the machine are missing")
    samples = [ExportedSample(of, (node,), value) for of, value in machine.items()]
    for (of, pod, container), cgroups in figures.items():
        # A restarted container may appear together with its predecessor, which has the same name.
        newest = max(cgroups.values(), key=lambda figure: figure.time or 0)
        if of is series.MEMORY_LIMIT and newest.value == 0:  # no limit
            continue
        of_pod = (workers.namespace, pod, container, node)
        samples.append(ExportedSample(of, of_pod, newest.value, newest.time))
    return samples


def parse_line(rest: bytes) -> tuple[dict[str, str], Figure]:
    """Parse the rest of a line after the metric's name and brace: ``a="b",c="d"} 1.5 1637``."""
    labels, _, figures = rest.rpartition(b"} ")
    try:
        value, _, milliseconds = figures.partition(b" ")
        time = int(milliseconds) / 1000 if milliseconds else None
        return dict(_LABEL.findall(labels.decode())), Figure(float(value), time)
    except ValueError as error:
        raise SourceError(f"the response is not in Prometheus's text format: {error}") from error
