"""A pod's resource figures: the ``container_*`` series that Prometheus scrapes from exporters."""

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
# A pod with no more samples is read in one query.
_AT_ONCE = 200_000


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
    if selection.names and not any(name.startswith(_PREFIX) for name in selection.names):
        return
    everything = f"{{__name__=~{quote(_PREFIX + '.+')},pod={quote(pod)}}}"
    found = prometheus.series(everything, 0, now_ms)
    span = Span(
        max(0, selection.after_us // 1000 + 1), min(now_ms, max(0, selection.until_us // 1000))
    )
    figures = [
        (name, figure)
        for name, figure in _figures(found)
        if selection.wants(name, figure.metric) and span.length_ms
    ]
    if not figures:
        return
    if _count(prometheus, [figure.selector(pod) for _, figure in figures], span) > _AT_ONCE:
        for name, figure in figures:
            yield name, partial(windows.read, prometheus, figure.selector(pod), span)
        return
    metrics = "|".join(sorted({figure.metric for _, figure in figures}))
    wanted = f"{{__name__=~{quote(metrics)},pod={quote(pod)}}}"
    answers = windows.read_at_once(prometheus, wanted, span)
    for name, figure in figures:
        yield name, partial(_points, [one for one in answers if figure.is_of(one.labels)], span)


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


def _count(prometheus: PrometheusClient, selectors: Sequence[str], span: Span) -> int:
    """Return how many samples the selectors find, in one query."""
    counts = [
        # Counting drops the name, so something else must tell the results apart.
        f'label_replace(sum(count_over_time({selector}[{span.length_ms}ms])),"n","{n}","","")'
        for n, selector in enumerate(selectors)
    ]
    found = prometheus.query(" or ".join(counts), span.last_ms / 1000)
    return sum(int(one.values[0]) for one in found)


def _points(found: Sequence[Found], span: Span) -> Pieces:
    if points := join([windows.to_points(one, span) for one in found]):
        yield points
