"""Sending samples to Prometheus: remote write 1.0, protobuf in snappy's block format.

The message is ``prometheus.WriteRequest`` of prompb/remote.proto and prompb/types.proto::

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }
"""

import logging
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import cramjam
import httpx
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mlbench.contract.errors import MLBenchError
from mlbench.contract.login import origin_of, split_login

log = logging.getLogger(__name__)

_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# Negative numbers are encoded as their two's complement of 64 bits.
_HIGH_57_BITS = (1 << 57) - 1
# Answers about the content of a request.
_REFUSALS = (400, 413, 422)
# Some versions answer this with 500, as if it were worth trying again.
_TOO_OLD = "too old sample"
# The size of a request before compression, about.
_REQUEST_BYTES = 4 << 20
_MAX_SAMPLE_BYTES = 24
# After a sample from the future, Prometheus refuses every sample of today.
FUTURE_MS = 60_000
# Below `out_of_order_time_window` in prometheus.yml; Prometheus refuses older samples.
PAST_MS = 23 * 3600 * 1000


class SamplesRefusedError(MLBenchError):
    """Prometheus refused a request for its content, and may have stored none of it."""


class UnavailableError(MLBenchError):
    """Prometheus cannot take requests now; ``retry_after`` is how many seconds it asks to wait."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TimeSeries(NamedTuple):
    """The labels of a series, and its samples."""

    labels: bytes
    """As ``encode_labels`` returns them: once, however often samples of the series are sent."""
    samples: Sequence[tuple[int, float]]
    """Milliseconds since 1970, strictly increasing, and values."""

    def halves(self) -> tuple["TimeSeries", "TimeSeries"]:
        """Split the samples in the middle."""
        half = len(self.samples) // 2
        first, second = self.samples[:half], self.samples[half:]
        return TimeSeries(self.labels, first), TimeSeries(self.labels, second)


def encode_labels(labels: Mapping[str, str]) -> bytes:
    """Encode labels as fields of a series, in order of their names, as Prometheus requires."""
    pairs = (_field(1, n.encode()) + _field(2, v.encode()) for n, v in sorted(labels.items()))
    return b"".join(_field(1, pair) for pair in pairs)


def encode(series: Iterable[TimeSeries]) -> bytes:
    """Encode a WriteRequest, uncompressed."""
    layouts = _SampleLayouts()
    pieces: list[bytes] = []
    for labels, samples in series:
        length, place = len(labels), len(pieces)
        pieces += (b"", labels)
        for time_ms, value in samples:
            pack, head, tail = layouts[time_ms >> 7]
            sample = pack(head, value, 0x10, 0x80 | time_ms & 0x7F, tail)
            length += len(sample)
            pieces.append(sample)
        pieces[place] = _head(1, length)
    return b"".join(pieces)


class WriterMetrics:
    """Metrics of the requests to Prometheus, and of where samples went."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "mlbench_writer_requests_total",
            "Remote-write requests by Prometheus's answer.",
            ("outcome",),
            registry=registry,
        )
        self._seconds = Histogram(
            "mlbench_writer_request_seconds", "Time until Prometheus answered.", registry=registry
        )
        self._success = Gauge(
            "mlbench_writer_success_timestamp_seconds",
            "When Prometheus last accepted a request.",
            registry=registry,
        )
        self._samples = Counter(
            "mlbench_writer_samples_total",
            "Samples that Prometheus accepted, cannot hold (record_only), or refused.",
            ("outcome",),
            registry=registry,
        )
        # A counter that does not begin at 0 would hide its first increase.
        for answer in ("accepted", "refused", "unavailable"):
            self._requests.labels(answer)
        for outcome in ("accepted", "record_only", "refused"):
            self._samples.labels(outcome)

    def count_request(self, answer: str, seconds: float) -> None:
        """Count a request that was accepted, refused, or found Prometheus unavailable."""
        self._requests.labels(answer).inc()
        self._seconds.observe(seconds)
        if answer == "accepted":
            self._success.set_to_current_time()

    def count_samples(self, accepted: int, record_only: int, refused: int) -> None:
        """Count the samples of a batch, each once."""
        self._samples.labels("accepted").inc(accepted)
        self._samples.labels("record_only").inc(record_only)
        self._samples.labels("refused").inc(refused)


class RemoteWriter:
    """Sends series to a Prometheus server."""

    def __init__(
        self,
        prometheus_url: str,
        timeout_seconds: float = 10.0,
        metrics: WriterMetrics | None = None,
    ) -> None:
        self.metrics = metrics or WriterMetrics(CollectorRegistry())
        url, login = split_login(prometheus_url)
        self._url = f"{url}/api/v1/write"
        # Errors, which are logged, must have neither the password nor the secret path.
        self._origin = origin_of(url)
        self._client = httpx.Client(timeout=timeout_seconds, auth=login)

    def send(self, series: Sequence[TimeSeries]) -> None:
        """Send series in one request.

        Success does not prove that all samples are stored: Prometheus drops some silently.

        Raises:
            RefusedError: Prometheus cannot take one of the samples.
            UnavailableError: Prometheus gave no answer, or asks to try again.
        """
        began, answer = time.perf_counter(), "unavailable"
        try:
            self._post(bytes(cramjam.snappy.compress_raw(encode(series))))
            answer = "accepted"
        except SamplesRefusedError:
            answer = "refused"
            raise
        finally:
            self.metrics.count_request(answer, time.perf_counter() - began)

    def send_all(self, series: Iterable[TimeSeries]) -> list[TimeSeries]:
        """Send series in requests of a bounded size; return the single samples that were refused.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        return [
            refused for request in _requests(series) for refused in self._send_or_split(request)
        ]

    def _send_or_split(self, series: Sequence[TimeSeries]) -> list[TimeSeries]:
        """Send series; a refused request is halved until its bad samples are alone."""
        try:
            self.send(series)
        except SamplesRefusedError as error:
            first, *others = series
            if not others and len(first.samples) == 1:
                log.warning(
                    "Prometheus refused a sample, which stays in the record only: %s: %s",
                    first,
                    error,
                )
                return [first]
            parts = series if others else first.halves()
            half = len(parts) // 2
            return self._send_or_split(parts[:half]) + self._send_or_split(parts[half:])
        return []

    def _post(self, body: bytes) -> None:
        try:
            response = self._client.post(self._url, content=body, headers=_HEADERS)
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self._origin}: {error or type(error).__name__}") from error
        del response.stream  # it refers to the response, and that to the body: they would stay
        if response.is_success:
            return
        text = response.text.strip()
        if response.status_code in _REFUSALS or _TOO_OLD in text:
            raise SamplesRefusedError(text)
        # Retry-After may also be a date, which is ignored.
        retry_after = response.headers.get("Retry-After", "")
        seconds = float(retry_after) if retry_after.isdecimal() else None
        raise UnavailableError(f"{self._origin}: {response.status_code} {text}", seconds)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _requests(series: Iterable[TimeSeries]) -> Iterator[list[TimeSeries]]:
    request: list[TimeSeries] = []
    size = 0
    for entry in series:
        its_size = len(entry.labels) + _MAX_SAMPLE_BYTES * len(entry.samples)
        if request and size + its_size > _REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(entry)
        size += its_size
    if request:
        yield request


class _SampleLayouts(dict[int, tuple[Callable[..., bytes], bytes, bytes]]):
    """How to encode a sample, by its time without the low seven bits.

    Samples of the same 128 ms share a layout, and with it most of the work.
    """

    def __missing__(self, high_bits: int) -> tuple[Callable[..., bytes], bytes, bytes]:
        tail = _varint(high_bits & _HIGH_57_BITS)
        head = b"\x12" + bytes([1 + 8 + 1 + 1 + len(tail)]) + b"\x09"
        pack = struct.Struct(f"<{len(head)}sdBB{len(tail)}s").pack
        layout = self[high_bits] = (pack, head, tail)
        return layout


def _field(number: int, data: bytes) -> bytes:
    return _head(number, len(data)) + data


@lru_cache(4096)
def _head(number: int, length: int) -> bytes:
    return bytes([number << 3 | 2]) + _varint(length)


def _varint(value: int) -> bytes:
    if value <= 0x7F:
        return bytes([value])
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
