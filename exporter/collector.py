"""Turns the samples of all sources into metric families, and reports which sources work."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from exporter.series import Family, Sample, Series, Source, SourceError

log = logging.getLogger(__name__)

_MOST_AHEAD_SECONDS = 60.0


@dataclass(frozen=True)
class Reading:
    """The result of reading one source in one scrape."""

    source: str
    seconds: float
    samples: Sequence[Sample]
    error: Exception | None
    """Why it failed, if it did; the samples are those before."""


class UsageCollector(Collector):
    """Reads every source once in each scrape, and keeps no sample from one scrape to the next."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._told: dict[str, str] = {}
        """The last logged failure of each source that does not work."""

    def collect(self) -> Iterator[Family]:
        """Yield the families of all sources; a source that fails loses only its own series."""
        readings = [read(source) for source in self._sources]
        for reading in readings:
            self._log(reading)
        yield from families(sample for reading in readings for sample in reading.samples)
        yield from source_families(readings)

    def _log(self, reading: Reading) -> None:
        """Log that a source fails, or works again: once, not in every scrape."""
        source, error = reading.source, reading.error
        if error is None:
            if self._told.pop(source, None) is not None:
                log.info("source %s works again", source)
            return
        text = f"{type(error).__name__}: {error}"
        if self._told.get(source) == text:
            return
        self._told[source] = text
        expected = isinstance(error, SourceError)
        log.error("source %s failed: %s", source, error, exc_info=None if expected else error)


def read(source: Source) -> Reading:
    """Read a source now."""
    start = time.perf_counter()
    samples: list[Sample] = []
    error: Exception | None = None
    try:
        # Prometheus would take a sample far ahead of now for the newest, and nothing after it.
        latest = time.time() + _MOST_AHEAD_SECONDS
        for sample in source.read():
            if sample.time is not None and sample.time > latest:
                raise SourceError(f"{sample.series.name} is of {sample.time:.0f}, which is to come")
            samples.append(sample)
    except Exception as raised:  # whatever breaks in one source, the others are served
        error = raised
    return Reading(source.name, time.perf_counter() - start, samples, error)


def families(samples: Iterable[Sample]) -> Iterator[Family]:
    """Yield one family for each series that has samples."""
    found: defaultdict[Series, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.series].append(sample)
    for series, members in found.items():
        family = series.family(series.name, series.help, labels=series.labels)
        for sample in members:
            family.add_metric(sample.labels, sample.value, timestamp=sample.time)
        yield family


def source_families(readings: Iterable[Reading]) -> Iterator[Family]:
    """Yield the families that report whether each source works, and how long it took."""
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
        up.add_metric((reading.source,), reading.error is None)
        duration.add_metric((reading.source,), reading.seconds)
    yield up
    yield duration
