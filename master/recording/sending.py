"""What an owner's series are called in Prometheus, and how they are sent there."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from master.recording.remote_write import RefusedError, RemoteWriter, TimeSeries
from master.recording.samples import SeriesKey
from mlbench import names

log = logging.getLogger(__name__)

# About so large a request to Prometheus may be, before it is compressed.
_REQUEST_BYTES = 4 << 20


def labels(owner: str, key: SeriesKey) -> dict[str, str]:
    """Return the labels that a series has in Prometheus."""
    kind, _, name = owner.partition("/")
    metric, rank = key
    if kind == "pod":
        return {"__name__": names.POD_METRIC, "pod": name, "metric": metric}
    found = {"__name__": names.RUN_METRIC, "run_id": name, "metric": metric}
    return found | {"rank": rank} if rank else found


def series_key(found: Mapping[str, str]) -> SeriesKey:
    """Return which of its owner's series has these labels."""
    return found["metric"], found.get("rank", "")


def send(writer: RemoteWriter, series: Sequence[TimeSeries]) -> list[TimeSeries]:
    """Send the series, and return the single samples that Prometheus refused.

    One bad sample makes Prometheus refuse the whole request, so a refused one is halved down to it.

    Raises:
        UnavailableError: Prometheus cannot take anything now.
    """
    if not series:
        return []
    try:
        writer.send(series)
    except RefusedError as error:
        if len(series) > 1:
            half = len(series) // 2
            return send(writer, series[:half]) + send(writer, series[half:])
        [one] = series
        if len(one.times_ms) > 1:
            return [refused for half in one.halves() for refused in send(writer, [half])]
        log.warning("Prometheus refused a sample, so it is kept: %s: %s", one, error)
        return [one]
    return []


def requests(series: Iterable[TimeSeries]) -> Iterator[list[TimeSeries]]:
    """Yield the series in requests of a bounded size."""
    request: list[TimeSeries] = []
    size = 0
    for one in series:
        if request and size + one.encoded_bytes > _REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(one)
        size += one.encoded_bytes
    if request:
        yield request
