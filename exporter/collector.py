"""Turns what the sources read into metric families, named and labelled as cAdvisor does."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from exporter.usage import PodUsage, Source

log = logging.getLogger(__name__)

Family = CounterMetricFamily | GaugeMetricFamily

LABELS = ("namespace", "pod", "container", "node")


@dataclass(frozen=True)
class Series:
    """One metric of a pod: how it is called, and where its value stands."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    help: str
    value: Callable[[PodUsage], float | None]


SERIES: tuple[Series, ...] = (
    Series(
        CounterMetricFamily,
        "container_cpu_usage_seconds_total",
        "CPU time used, in user and kernel mode.",
        lambda usage: usage.cpu_usage_seconds,
    ),
    Series(
        CounterMetricFamily,
        "container_cpu_user_seconds_total",
        "CPU time used in user mode.",
        lambda usage: usage.cpu_user_seconds,
    ),
    Series(
        GaugeMetricFamily,
        "container_memory_usage_bytes",
        "Memory held, pages of files included.",
        lambda usage: usage.memory_usage_bytes,
    ),
    Series(
        GaugeMetricFamily,
        "container_memory_working_set_bytes",
        "Memory held, without pages of files, which the kernel can drop.",
        lambda usage: usage.memory_working_set_bytes,
    ),
    Series(
        GaugeMetricFamily,
        "container_threads",
        "Threads of all processes.",
        lambda usage: usage.threads,
    ),
    Series(
        GaugeMetricFamily,
        "container_processes",
        "Processes, without those that ended and wait to be reaped.",
        lambda usage: usage.processes,
    ),
    Series(
        CounterMetricFamily,
        "container_fs_reads_bytes_total",
        "Bytes read from storage, not from the page cache.",
        lambda usage: usage.disk.read_bytes if usage.disk else None,
    ),
    Series(
        CounterMetricFamily,
        "container_fs_writes_bytes_total",
        "Bytes written to storage.",
        lambda usage: usage.disk.write_bytes if usage.disk else None,
    ),
    Series(
        CounterMetricFamily,
        "container_network_receive_bytes_total",
        "Bytes received, where the pod has a network namespace of its own.",
        lambda usage: usage.network.receive_bytes if usage.network else None,
    ),
    Series(
        CounterMetricFamily,
        "container_network_transmit_bytes_total",
        "Bytes sent, where the pod has a network namespace of its own.",
        lambda usage: usage.network.transmit_bytes if usage.network else None,
    ),
)


@dataclass(frozen=True)
class Reading:
    """What one source told in one scrape: None where it failed."""

    source: str
    seconds: float
    usages: Sequence[PodUsage] | None


class UsageCollector(Collector):
    """Reads every source once in each scrape, and keeps nothing from one scrape to the next."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)

    def collect(self) -> Iterator[Family]:
        """Yield the families of all sources; one that fails takes only its own series along."""
        readings = [read(source) for source in self._sources]
        yield from pod_families([usage for reading in readings for usage in reading.usages or ()])
        yield from source_families(readings)


def read(source: Source) -> Reading:
    """Return what the source tells now; an error of its is logged and told as a metric."""
    start = time.perf_counter()
    usages: Sequence[PodUsage] | None
    try:
        usages = source.read()
    except Exception:  # whatever breaks in one source, the others still have something to tell
        log.exception("source %s failed", source.name)
        usages = None
    return Reading(source.name, time.perf_counter() - start, usages)


def pod_families(usages: Sequence[PodUsage]) -> Iterator[Family]:
    """Yield one family for each metric that is known of at least one pod."""
    for series in SERIES:
        family = series.family(series.name, series.help, labels=LABELS)
        for usage in usages:
            value = series.value(usage)
            if value is not None:
                family.add_metric((usage.namespace, usage.pod, usage.container, usage.node), value)
        if family.samples:
            yield family


def source_families(readings: Iterable[Reading]) -> Iterator[Family]:
    """Yield what tells whether each source works, and how long it took."""
    up = GaugeMetricFamily(
        "mlbench_exporter_source_up",
        "Whether the source could be read: 1, or 0 where it failed.",
        labels=("source",),
    )
    duration = GaugeMetricFamily(
        "mlbench_exporter_source_duration_seconds",
        "Time that reading the source took.",
        labels=("source",),
    )
    for reading in readings:
        up.add_metric((reading.source,), reading.usages is not None)
        duration.add_metric((reading.source,), reading.seconds)
    yield up
    yield duration
