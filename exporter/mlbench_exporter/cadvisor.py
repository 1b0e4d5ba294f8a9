"""Parses the samples of worker pods and their node from a kubelet's /metrics/cadvisor.

A full node's answer has megabytes, in Prometheus's text format. Lines are chosen by the name of
their metric, and only those that are served are parsed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mlbench_exporter import series
from mlbench_exporter.series import WORKER, Sample, Series, SourceError

_INFIX: Final = "-mlbench-worker-"
_NO_CONTAINER = b'container=""'
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
    """The worker pods of a release: ``{release}-mlbench-worker-{number}`` in its namespace."""

    namespace: str
    release: str

    def include(self, namespace: str, pod: str) -> bool:
        """Check whether a pod is one of them."""
        prefix = self.release + _INFIX
        is_worker = pod.startswith(prefix) and pod.removeprefix(prefix).isdecimal()
        return is_worker and namespace == self.namespace


@dataclass
class Figure:
    """A value of one cgroup, summed over cAdvisor's interfaces, disks or cores."""

    value: float = 0.0
    time: float | None = None
    """Unix seconds; None if cAdvisor gives no time, as for what does not change."""


def parse(pieces: Iterable[bytes], workers: WorkerPods, node: str) -> list[Sample]:
    """Return the samples of the worker pods and of the node, each with cAdvisor's own time.

    ``pieces`` are the text's, cut anywhere. Of a text that is not cAdvisor's, or not whole, a
    SourceError tells.
    """
    machine: dict[Series, float] = {}
    # By series, pod and container, and under those by cgroup.
    figures: defaultdict[tuple[Series, str, str], defaultdict[str, Figure]]
    figures = defaultdict(lambda: defaultdict(Figure))
    # Most lines of a full node are of other metrics, of other pods, or of sandboxes.
    of_workers = f'pod="{workers.release}{_INFIX}'.encode()
    for text_line in _lines(pieces):
        name, _, rest = text_line.partition(b"{")
        if name in _MACHINE:
            machine[_MACHINE[name]] = parse_line(rest)[1].value
            continue
        of = _FIGURES.get(name)
        if of and of_workers in rest and (of in _OF_PODS or _NO_CONTAINER not in rest):
            labels, time = parse_line(rest)
            pod, container = labels.get("pod", ""), _container(of, labels)
            if container and workers.include(labels.get("namespace", ""), pod):
                figure = figures[of, pod, container][labels.get("id", "")]
                figure.value += time.value
                figure.time = time.time

    # cAdvisor tells the machine's figures last, so they show that the text is whole.
    if machine.keys() != set(_MACHINE.values()):
        raise SourceError("the answer is not all that cAdvisor tells")
    samples = [Sample(of, (node,), value) for of, value in machine.items()]
    for (of, pod, container), cgroups in figures.items():
        # A container that was started anew may be seen beside the one before, under one name.
        newest = max(cgroups.values(), key=lambda figure: figure.time or 0)
        if of is series.MEMORY_LIMIT and newest.value == 0:  # there is none
            continue
        of_pod = (workers.namespace, pod, container, node)
        samples.append(Sample(of, of_pod, newest.value, newest.time))
    return samples


def parse_line(rest: bytes) -> tuple[dict[str, str], Figure]:
    """Parse what follows the name of a metric and its brace: ``a="b",c="d"} 1.5 1637``."""
    labels, _, figures = rest.rpartition(b"} ")
    try:
        value, _, milliseconds = figures.partition(b" ")
        time = int(milliseconds) / 1000 if milliseconds else None
        return dict(_LABEL.findall(labels.decode())), Figure(float(value), time)
    except ValueError as error:
        raise SourceError(f"the answer is not a text of metrics: {error}") from error


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the complete lines; a rest without an end is dropped."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def _container(of: Series, labels: Mapping[str, str]) -> str:
    """Return the container that a figure is shown for, "" where it is shown for none.

    A pod's interfaces belong to the sandbox that its containers share. All else of the sandbox,
    which is called "POD" or nothing, is left out, and so are the pod's own figures, without a
    container, which hold those of its containers already.
    """
    if of in _OF_PODS:
        return "" if labels.get("interface") == "lo" else WORKER
    container = labels.get("container", "")
    return "" if container == "POD" else container
