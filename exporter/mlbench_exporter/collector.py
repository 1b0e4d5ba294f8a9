"""Turn the samples of all sources into metric families, and report which sources work."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client.registry import Collector

from mlbench_exporter import exported_series as series
from mlbench_exporter.exported_series import (
    ExportedSample,
    ExportedSeries,
    Family,
    SeriesSource,
    SourceError,
)

log = logging.getLogger(__name__)


class UsageCollector(Collector):
    """Reads every source once per scrape, without state between scrapes."""

    def __init__(self, sources: Iterable[SeriesSource]) -> None:
        self._sources = tuple(sources)
        self._logged: dict[str, str] = {}
        """Last logged failure of each failing source."""

    def collect(self) -> Iterator[Family]:
        """Yield the families of all sources; a failing source contributes what it read before."""
        samples: defaultdict[ExportedSeries, list[ExportedSample]] = defaultdict(list)
        for source in self._sources:
            start = time.perf_counter()
            works = True
            try:
                for sample in source.read():
                    # Prometheus would drop the correct samples that follow one from the future.
                    if sample.time is not None and sample.time > time.time() + 60:
                        dated = f"{sample.series.name} is dated {sample.time:.0f}"
                        raise SourceError(f"{dated}, in the future")
                    samples[sample.series].append(sample)
                if self._logged.pop(source.name, None) is not None:
                    log.info("source %s works again", source.name)
            except Exception as error:  # a failing source must not affect the others
                works = False
                failure = f"{type(error).__name__}: {error}"
                # Logged once, not in every scrape.
                if self._logged.get(source.name) != failure:
                    self._logged[source.name] = failure
                    traceback = None if isinstance(error, SourceError) else error
                    log.error("source %s failed: %s", source.name, error, exc_info=traceback)
            seconds = time.perf_counter() - start
            for kind, value in ((series.SOURCE_UP, works), (series.SOURCE_SECONDS, seconds)):
                samples[kind].append(ExportedSample(kind, (source.name,), value))
        for kind, members in samples.items():
            family = kind.family(kind.name, kind.help, labels=kind.labels)
            for sample in members:
                family.add_metric(sample.labels, sample.value, timestamp=sample.time)
            yield family
