"""Metric families are built from samples, and failing sources are reported."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from mlbench_exporter import exported_series as series
from mlbench_exporter.collector import UsageCollector
from mlbench_exporter.exported_series import (
    ExportedSample,
    ExportedSeries,
    SeriesSource,
    SourceError,
)
from tests.support.exporting import promtool_says

POD = ("local", "local-mlbench-worker-0", "worker", "laptop")
OTHER_POD = ("local", "local-mlbench-worker-1", "worker", "laptop")
LABELS = dict(zip(series.THREADS.labels, POD, strict=True))

EVERY_SERIES = [of for of in vars(series).values() if isinstance(of, ExportedSeries)]


class Works:
    """A source that returns fixed samples."""

    def __init__(self, name: str, *samples: ExportedSample) -> None:
        self.name = name
        self._samples = samples

    def read(self) -> Iterable[ExportedSample]:
        """Return the samples."""
        return self._samples


class Fails:
    """A source that yields one sample and then fails with ``error``, if there is one."""

    name = "broken"

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def read(self) -> Iterator[ExportedSample]:
        """Yield a sample, then raise the error."""
        yield ExportedSample(series.MACHINE_CORES, ("laptop",), 2)
        if self.error:
            raise self.error


def registry(*sources: SeriesSource) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(UsageCollector(sources))
    return registry


def test_samples_of_several_sources_share_one_family() -> None:
    first = Works("one", ExportedSample(series.THREADS, POD, 7))
    second = Works("two", ExportedSample(series.THREADS, OTHER_POD, 3))
    families = list(registry(first, second).collect())

    assert len({family.name for family in families}) == len(families)
    threads = next(family for family in families if family.name == "container_threads")
    assert {sample.labels["pod"]: sample.value for sample in threads.samples} == {
        "local-mlbench-worker-0": 7,
        "local-mlbench-worker-1": 3,
    }


def test_a_sample_carries_the_time_at_which_it_was_measured() -> None:
    measured = ExportedSample(series.THREADS, POD, 7, time=1795246978.634)
    text = generate_latest(registry(Works("one", measured))).decode()
    assert '"} 7.0 1795246978634\n' in text

    openmetrics = generate_openmetrics(registry(Works("one", measured))).decode()
    assert '"} 7.0 1795246978.634\n' in openmetrics


@pytest.mark.parametrize(
    ("error", "tracebacks"), [(SourceError("down"), 0), (ZeroDivisionError("down"), 1)]
)
def test_a_failing_source_is_reported_and_does_not_affect_others(
    error: Exception, tracebacks: int, caplog: pytest.LogCaptureFixture
) -> None:
    works = Works("one", ExportedSample(series.THREADS, POD, 7))
    read = registry(Fails(error), works).get_sample_value

    assert read("mlbench_exporter_source_up", {"source": "broken"}) == 0
    assert read("mlbench_exporter_source_up", {"source": "one"}) == 1
    assert read("container_threads", LABELS) == 7
    # All three scrapes have failed: a failure is logged once.
    assert caplog.messages == ["source broken failed: down"]
    assert caplog.text.count("Traceback") == tracebacks


def test_a_failure_is_logged_once_until_it_changes_or_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="mlbench_exporter")
    source = Fails(SourceError("down"))
    scraped = registry(source)
    for problem in ("down", "down", "forbidden", "", "", "down"):
        source.error = SourceError(problem) if problem else None
        list(scraped.collect())

    assert caplog.messages == [
        "source broken failed: down",
        "source broken failed: forbidden",
        "source broken works again",
        "source broken failed: down",
    ]


def test_promtool_accepts_all_series(promtool: Path) -> None:
    samples = [ExportedSample(of, tuple("abcd"[: len(of.labels)]), 1) for of in EVERY_SERIES]
    text = generate_latest(registry(Works("one", *samples), Fails(SourceError("down")))).decode()
    assert all(of.name in text for of in EVERY_SERIES)
    assert promtool_says(promtool, text) == ""
