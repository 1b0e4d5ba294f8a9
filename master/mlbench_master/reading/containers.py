"""Resource figures of pods: the ``container_*`` series that Prometheus scrapes from exporters."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlbench_master.reading import windows
from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.promql import PrometheusClient, QueryResult, quote, select
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.windows import Span

_PREFIX = "container_"
# These tell where a figure was scraped from, and change when an exporter is started again.
_SCRAPE_LABELS = {"__name__", "pod", "job", "instance"}
# Maximum number of samples per query.
_AT_ONCE = 200_000
# Pods in a query.
_PODS = 100

Figures = dict[str, Callable[[], Series]]
"""Functions that read the series of a pod, by the names of these."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of one container, possibly in several series of Prometheus."""

    metric: str
    labels: Mapping[str, str]
    """All labels except the labels of the scrape."""

    def holds(self, series: QueryResult) -> bool:
        """Check if a series belongs to the figure."""
        return series.labels["__name__"] == self.metric and all(
            series.labels.get(name, "") == value for name, value in self.labels.items()
        )

    def read(self, prometheus: PrometheusClient, pod: str, span: Span) -> Series:
        """Return the figure of a pod, read window by window."""
        selector = select({"__name__": self.metric, "pod": pod, **self.labels})
        return merge([*windows.read(prometheus, selector, span)])


def read(
    prometheus: PrometheusClient, pods: Sequence[str], selection: Selection, now_ms: int
) -> Iterator[tuple[str, Figures]]:
    """Yield each pod with its series up to now, in few queries however many pods these are.

    Series have their name in Prometheus. If a pod has several series of a name, for example with
    several containers, the labels that differ are added: ``container_x{container="a"}``.
    """
    metrics = {name.partition("{")[0] for name in selection.names}
    metrics = {metric for metric in metrics if metric.startswith(_PREFIX)}
    span = Span(
        max(0, selection.after_us // 1000 + 1), min(now_ms, max(0, selection.until_us // 1000))
    )
    is_empty = not selection.with_usage or not span.length_ms
    if is_empty or (selection.names and not metrics):
        yield from ((pod, {}) for pod in pods)
        return
    matching = "|".join(map(re.escape, sorted(metrics))) or f"{_PREFIX}.+"
    for start in range(0, len(pods), _PODS):
        some = pods[start : start + _PODS]
        labels_of: dict[str, list[Mapping[str, str]]] = {pod: [] for pod in some}
        for labels in prometheus.series(_selector(matching, some), 0, now_ms):
            labels_of[labels["pod"]].append(labels)
        wanted = {
            pod: [named for named in _figures(series) if selection.wants(named[0], named[1].metric)]
            for pod, series in labels_of.items()
        }
        yield from _read_some(prometheus, wanted, span)


def _read_some(
    prometheus: PrometheusClient, wanted: Mapping[str, list[tuple[str, _Figure]]], span: Span
) -> Iterator[tuple[str, Figures]]:
    """Yield each pod with its series, read in one query unless that would be too much."""
    pods = list(wanted)
    metrics = sorted({figure.metric for figures in wanted.values() for _, figure in figures})
    counts = [
        f"(sum(count_over_time({_selector(metric, pods)}[{span.length_ms}ms])) or vector(0))"
        for metric in metrics
    ]
    counted = prometheus.query("+".join(counts), span.last_ms / 1000) if metrics else ()
    if any(int(count.values[0]) > _AT_ONCE for count in counted):
        if len(pods) == 1:
            [(pod, figures)] = wanted.items()
            yield pod, {n: partial(figure.read, prometheus, pod, span) for n, figure in figures}
            return
        for half in (pods[: len(pods) // 2], pods[len(pods) // 2 :]):
            yield from _read_some(prometheus, {pod: wanted[pod] for pod in half}, span)
        return
    by_pod: dict[str, list[QueryResult]] = {pod: [] for pod in pods}
    if metrics:
        selector = _selector("|".join(metrics), pods)
        for series in windows.read_at_once(prometheus, selector, span):
            by_pod[series.labels["pod"]].append(series)
    for pod, figures in wanted.items():
        results = {name: list(filter(figure.holds, by_pod[pod])) for name, figure in figures}
        yield pod, {name: partial(windows.as_one, found, span) for name, found in results.items()}


def _selector(metrics: str, pods: Sequence[str]) -> str:
    """Write the selector of pods' series whose names match a regular expression."""
    return f"{{__name__=~{quote(metrics)},pod=~{quote('|'.join(map(re.escape, pods)))}}}"


def _figures(label_sets: Sequence[Mapping[str, str]]) -> list[tuple[str, _Figure]]:
    """Return the figures in some series, by their names on the API."""
    by_metric: dict[str, list[Mapping[str, str]]] = {}
    for labels in label_sets:
        by_metric.setdefault(labels["__name__"], []).append(labels)
    named = []
    for metric, series in by_metric.items():
        names = sorted({name for labels in series for name in labels} - _SCRAPE_LABELS)
        kinds = sorted({tuple(labels.get(name, "") for name in names) for labels in series})
        differing = [i for i in range(len(names)) if len({kind[i] for kind in kinds}) > 1]
        for kind in kinds:
            selector = ",".join(f"{names[i]}={quote(kind[i])}" for i in differing)
            figure = _Figure(metric, dict(zip(names, kind, strict=True)))
            named.append((f"{metric}{{{selector}}}" if selector else metric, figure))
    return sorted(named, key=lambda pair: pair[0])
