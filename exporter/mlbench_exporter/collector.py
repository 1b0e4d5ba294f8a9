"""Turns the samples of all sources into metric families, and reports which sources work."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client.registry import Collector

from mlbench_exporter import series
from mlbench_exporter.series import Family, Sample, Series, Source, SourceError

log = logging.getLogger(__name__)

_MOST_AHEAD_SECONDS = 60.0


class UsageCollector(Collector):
    """Reads every source once in each scrape, and keeps no sample from one scrape to the next."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._logged: dict[str, str] = {}
        """The last logged failure of each source that does not work."""

    def collect(self) -> Iterator[Family]:
        """Yield the families of all sources; of one that fails, those that were read before."""
        samples: defaultdict[Series, list[Sample]] = defaultdict(list)
        for source in self._sources:
            start = time.perf_counter()
            works = True
            try:
                for sample in source.read():
                    # Prometheus would take it for newer than all to come.
                    if sample.time is not None and sample.time > time.time() + _MOST_AHEAD_SECONDS:
                        dated = f"{sample.series.name} is dated {sample.time:.0f}"
                        raise SourceError(f"{dated}, in the future")
                    samples[sample.series].append(sample)
                if self._logged.pop(source.name, None) is not None:
                    log.info("source %s works again", source.name)
            except Exception as error:  # whatever breaks in one source, the others are served
                works = False
                self._log_failure(source.name, error)
            seconds = time.perf_counter() - start
            for of, value in ((series.SOURCE_UP, works), (series.SOURCE_SECONDS, seconds)):
                samples[of].append(Sample(of, (source.name,), value))
        for of, members in samples.items():
            family = of.family(of.name, of.help, labels=of.labels)
            for sample in members:
                family.add_metric(sample.labels, sample.value, timestamp=sample.time)
            yield family

    def _log_failure(self, source: str, error: Exception) -> None:
        """Log why a source fails: once, not in every scrape."""
        text = f"{type(error).__name__}: {error}"
        if self._logged.get(source) != text:
            self._logged[source] = text
            traceback = None if isinstance(error, SourceError) else error
            log.error("source %s failed: %s", source, error, exc_info=traceback)
