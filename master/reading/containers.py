"""Pods' resource figures: the ``container_*`` series that Prometheus scrapes from exporters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from master.reading import windows
from master.reading.points import Pieces, join
from master.reading.promql import Found, PrometheusClient, quote, select
from master.reading.selection import Read, Selection
from master.reading.windows import Span

_PREFIX = "container_"
# Where a figure was scraped from is no part of what it is about, and changes with each start.
_SCRAPE_LABELS = {"__name__", "pod", "job", "instance"}
# Pods that have no more samples together are read in one query.
_AT_ONCE = 200_000
# So many pods are asked for in a query.
_PODS = 100

Figures = list[tuple[str, Read]]
"""A pod's series in order of their names, and how to read each."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """What one exporter tells of one thing, over time."""

    metric: str
    labels: Mapping[str, str]
    """Those that tell it from others of the same metric, or could."""

    def is_of(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series of Prometheus holds it."""
        return labels["__name__"] == self.metric and all(
            labels.get(name, "") == value for name, value in self.labels.items()
        )

    def selector(self, pod: str) -> str:
        """Return what selects its series in Prometheus."""
        return select({"__name__": self.metric, "pod": pod, **self.labels})


def read(
    prometheus: PrometheusClient, pod: str, selection: Selection, now_ms: int
) -> Iterator[tuple[str, Read]]:
    """Yield the series of a pod in order of their names, and how to read each, up to now.

    A series is called what Prometheus calls it. Where a pod has several of one name, as it does
    with several containers, the labels that differ are added: ``container_x{container="a"}``.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    for _, figures in read_all(prometheus, [pod], selection, now_ms):
        yield from figures


def read_all(
    prometheus: PrometheusClient, pods: Sequence[str], selection: Selection, now_ms: int
) -> Iterator[tuple[str, Figures]]:
    """Yield each pod with its series, as ``read`` does: of many pods in few queries.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    metrics = {name.partition("{")[0] for name in selection.names}
    metrics = {metric for metric in metrics if metric.startswith(_PREFIX)}
    span = Span(
        max(0, selection.after_us // 1000 + 1), min(now_ms, max(0, selection.until_us // 1000))
    )
    if (selection.names and not metrics) or not span.length_ms:
        yield from ((pod, []) for pod in pods)
        return
    matching = "|".join(map(re.escape, sorted(metrics))) or f"{_PREFIX}.+"
    for start in range(0, len(pods), _PODS):
        some = pods[start : start + _PODS]
        found = prometheus.series(_selector(matching, some), 0, now_ms)
        wanted = {pod: _wanted(labels, selection) for pod, labels in _by_pod(some, found).items()}
        yield from _read_some(prometheus, wanted, span)


def _read_some(
    prometheus: PrometheusClient, wanted: Mapping[str, list[tuple[str, _Figure]]], span: Span
) -> Iterator[tuple[str, Figures]]:
    """Yield each pod with its series: in one query, unless there is too much of them."""
    pods = list(wanted)
    metrics = sorted({figure.metric for figures in wanted.values() for _, figure in figures})
    if metrics and _count(prometheus, metrics, pods, span) > _AT_ONCE:
        if len(pods) == 1:
            [(pod, figures)] = wanted.items()
            yield (
                pod,
                [
                    (name, partial(windows.read, prometheus, figure.selector(pod), span))
                    for name, figure in figures
                ],
            )
            return
        for half in (pods[: len(pods) // 2], pods[len(pods) // 2 :]):
            yield from _read_some(prometheus, {pod: wanted[pod] for pod in half}, span)
        return
    answers = (
        windows.read_at_once(prometheus, _selector("|".join(metrics), pods), span)
        if metrics
        else []
    )
    by_pod: dict[str, list[Found]] = {}
    for one in answers:
        by_pod.setdefault(one.labels["pod"], []).append(one)
    for pod, figures in wanted.items():
        answers = by_pod.get(pod, [])
        yield (
            pod,
            [
                (name, partial(_points, [one for one in answers if figure.is_of(one.labels)], span))
                for name, figure in figures
            ],
        )


def _selector(metrics: str, pods: Sequence[str]) -> str:
    """Return what selects the series of pods whose names match an expression."""
    return f"{{__name__=~{quote(metrics)},pod=~{quote('|'.join(map(re.escape, pods)))}}}"


def _by_pod(
    pods: Sequence[str], found: Sequence[Mapping[str, str]]
) -> dict[str, list[Mapping[str, str]]]:
    by_pod: dict[str, list[Mapping[str, str]]] = {pod: [] for pod in pods}
    for labels in found:
        by_pod[labels["pod"]].append(labels)
    return by_pod


def _wanted(found: Sequence[Mapping[str, str]], selection: Selection) -> list[tuple[str, _Figure]]:
    return [
        (name, figure) for name, figure in _figures(found) if selection.wants(name, figure.metric)
    ]


def _figures(found: Sequence[Mapping[str, str]]) -> list[tuple[str, _Figure]]:
    """Return what the series are about, in order of their names on the API."""
    by_metric: dict[str, list[Mapping[str, str]]] = {}
    for labels in found:
        by_metric.setdefault(labels["__name__"], []).append(labels)
    named = []
    for metric, series in by_metric.items():
        names = sorted({name for labels in series for name in labels} - _SCRAPE_LABELS)
        kinds = sorted({tuple(labels.get(name, "") for name in names) for labels in series})
        differing = [i for i in range(len(names)) if len({kind[i] for kind in kinds}) > 1]
        for kind in kinds:
            told = ",".join(f"{names[i]}={quote(kind[i])}" for i in differing)
            figure = _Figure(metric, dict(zip(names, kind, strict=True)))
            named.append((f"{metric}{{{told}}}" if told else metric, figure))
    return sorted(named, key=lambda one: one[0])


def _count(
    prometheus: PrometheusClient, metrics: Sequence[str], pods: Sequence[str], span: Span
) -> int:
    """Return how many samples there are of the metrics, in one query."""
    counts = [
        # Counting drops the name, so something else must tell the results apart.
        f"label_replace(sum(count_over_time({_selector(metric, pods)}[{span.length_ms}ms])),"
        f'"n","{n}","","")'
        for n, metric in enumerate(metrics)
    ]
    found = prometheus.query(" or ".join(counts), span.last_ms / 1000)
    return sum(int(one.values[0]) for one in found)


def _points(found: Sequence[Found], span: Span) -> Pieces:
    if points := join([windows.to_points(one, span) for one in found]):
        yield points
