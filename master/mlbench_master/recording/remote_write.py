"""Sending samples to Prometheus: remote write 1.0, protobuf in snappy's block format.

The message is ``prometheus.WriteRequest`` of prompb/remote.proto and prompb/types.proto::

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }
"""

import logging
import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import cramjam
import httpx
import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mlbench.contract.errors import MLBenchError
from mlbench.contract.login import origin_of, split_login

log = logging.getLogger(__name__)

_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# Answers about the content of a request.
_REFUSALS = (400, 413, 422)
# The size of a request before compression, about.
_REQUEST_BYTES = 4 << 20
_MAX_SAMPLE_BYTES = 24
# After a sample from the future, Prometheus refuses every sample of today.
FUTURE_MS = 60_000


class SamplesRefusedError(MLBenchError):
    """Prometheus refused a request for its content, and may have stored none of it."""


class UnavailableError(MLBenchError):
    """Prometheus cannot take requests now; ``retry_after`` is how many seconds it asks to wait."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def encode_labels(labels: Mapping[str, str]) -> bytes:
    """Encode labels as fields of a series, in order of their names, as Prometheus requires."""
    pairs = (_field(1, n.encode()) + _field(2, v.encode()) for n, v in sorted(labels.items()))
    return b"".join(_field(1, pair) for pair in pairs)


@dataclass(frozen=True)
class WriteRequest:
    """Samples of several series, as columns."""

    labels: Sequence[bytes]
    """Labels of each series, as ``encode_labels`` returns them."""
    starts: Sequence[int]
    """Position of the first sample of each series, ascending."""
    times_ms: NDArray[np.int64]
    """Milliseconds since 1970, strictly increasing in each series."""
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times_ms)

    def part(self, start: int, end: int) -> "WriteRequest":
        """Return the samples from position ``start`` to before ``end``."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)
        return WriteRequest(
            self.labels[first:last],
            [max(0, position - start) for position in self.starts[first:last]],
            self.times_ms[start:end],
            self.values[start:end],
        )

    def encode(self) -> bytes:
        """Return the protobuf message, uncompressed."""
        # All times take as many bytes as the longest one. A shorter one gets leading zeros, which
        # protobuf permits; within a day of now, all have the same length.
        times = self.times_ms.astype(np.uint64)
        length = len(_varint(int(times.max(initial=0))))
        layout = [("head", "u1", 3), ("value", "<f8"), ("tag", "u1"), ("time", "u1", length)]
        samples = np.empty(len(self), layout)
        samples["head"] = 0x12, 1 + 8 + 1 + length, 0x09
        samples["value"] = self.values
        samples["tag"] = 0x10
        shifts = np.arange(0, 7 * length, 7).astype(np.uint64)
        samples["time"] = times[:, np.newaxis] >> shifts & 0x7F
        samples["time"][:, :-1] |= 0x80
        encoded, width = samples.tobytes(), samples.itemsize
        pieces: list[bytes] = []
        bounds = pairwise([*self.starts, len(self)])
        for labels, (start, end) in zip(self.labels, bounds, strict=True):
            size = (end - start) * width
            pieces += _head(1, len(labels) + size), labels, encoded[start * width : end * width]
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
        *,
        write_url: str = "",
    ) -> None:
        self.metrics = metrics or WriterMetrics(CollectorRegistry())
        url, login = split_login(write_url or prometheus_url)
        self._url = url if write_url else f"{url}/api/v1/write"
        # Errors, which are logged, must have neither the password nor the secret path.
        self._origin = origin_of(url)
        self._client = httpx.Client(timeout=timeout_seconds, auth=login)

    def send(self, request: WriteRequest) -> None:
        """Send samples in one request.

        Success does not prove that all samples are stored: Prometheus drops some silently.

        Raises:
            SamplesRefusedError: Prometheus cannot take one of the samples.
            UnavailableError: Prometheus gave no answer, or asks to try again.
        """
        began, answer = time.perf_counter(), "unavailable"
        try:
            body = bytes(cramjam.snappy.compress_raw(request.encode()))
            response = self._client.post(self._url, content=body, headers=_HEADERS)
            del response.stream  # it refers to the response, and that to the body: they would stay
            if response.is_success:
                answer = "accepted"
                return
            text = response.text.strip()
            # Some versions answer this with 500, as if it were worth trying again.
            if response.status_code in _REFUSALS or "too old sample" in text:
                answer = "refused"
                raise SamplesRefusedError(text)
            # Retry-After may also be a date, which is ignored.
            retry_after = response.headers.get("Retry-After", "")
            seconds = float(retry_after) if retry_after.isdecimal() else None
            raise UnavailableError(f"{self._origin}: {response.status_code} {text}", seconds)
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self._origin}: {error or type(error).__name__}") from error
        finally:
            self.metrics.count_request(answer, time.perf_counter() - began)

    def send_all(self, request: WriteRequest) -> list[int]:
        """Send samples in requests of a bounded size; return the positions that were refused.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        sizes = np.full(len(request), _MAX_SAMPLE_BYTES)
        sizes[list(request.starts)] += np.fromiter(map(len, request.labels), np.int64)
        ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _REQUEST_BYTES, append=-1)) + 1
        bounds = pairwise([0, *ends.tolist()])
        return [i for start, end in bounds for i in self._send_part(request, start, end)]

    def _send_part(self, request: WriteRequest, start: int, end: int) -> list[int]:
        """Send some samples; halve a refused request until its bad samples are alone."""
        try:
            self.send(part := request.part(start, end))
        except SamplesRefusedError as error:
            if end - start == 1:
                log.warning("only the record has %s, which was refused: %s", part, error)
                return [start]
            half = (start + end) // 2
            return self._send_part(request, start, half) + self._send_part(request, half, end)
        return []

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


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
