"""Sending samples to Prometheus: remote write 1.0, protobuf in snappy's block format.

The message is ``prometheus.WriteRequest`` of prompb/remote.proto and prompb/types.proto::

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import cramjam
import httpx

from mlbench.errors import MLBenchError
from mlbench.login import split_login

_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
# A negative number is written as its two's complement of 64 bits.
_HIGH_57_BITS = (1 << 57) - 1
# Of what is in the request; others are of who sends it, or how much.
_REFUSALS = (400, 413, 422)
# Some versions answer it with 500, as if it might pass.
_TOO_OLD = "too old sample"


class RefusedError(MLBenchError):
    """Prometheus refused the request for what is in it; none of it may be taken as stored."""


class UnavailableError(MLBenchError):
    """Prometheus did not take the request, for a reason that may pass: send it again later.

    ``retry_after`` is the seconds that it asked to wait; nothing if it did not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """A series' labels, and its samples as two columns of the same length."""

    labels: Mapping[str, str]
    times_ms: Sequence[int]
    """Milliseconds since 1970, strictly increasing."""
    values: Sequence[float]

    @property
    def encoded_bytes(self) -> int:
        """About how many bytes of a request it takes."""
        # No character takes more than four bytes, no sample more than 24.
        texts = sum(len(name) + 4 * len(value) for name, value in self.labels.items())
        return texts + 24 * len(self.times_ms)

    def halves(self) -> tuple["TimeSeries", "TimeSeries"]:
        """Return the first and the second half of the samples."""
        half = len(self.times_ms) // 2
        return (
            TimeSeries(self.labels, self.times_ms[:half], self.values[:half]),
            TimeSeries(self.labels, self.times_ms[half:], self.values[half:]),
        )


def encode(series: Sequence[TimeSeries]) -> bytes:
    """Return the uncompressed WriteRequest. Labels are sorted by name, as Prometheus asks."""
    return b"".join([_field(1, _encode_series(one)) for one in series])


class RemoteWriter:
    """Sends series to one Prometheus."""

    def __init__(self, prometheus_url: str, timeout_seconds: float = 10.0) -> None:
        # The password must not be in the errors, which tell the address.
        url, login = split_login(prometheus_url)
        self._url = f"{url}/api/v1/write"
        self._client = httpx.Client(timeout=timeout_seconds, auth=login)

    def send(self, series: Sequence[TimeSeries]) -> None:
        """Send the series in one request.

        An answer of success is no proof: Prometheus drops some samples silently, so count later.

        Raises:
            RefusedError: Prometheus found a sample that it cannot take; it may have stored none.
            UnavailableError: no answer, or one that asks to try again.
        """
        body = bytes(cramjam.snappy.compress_raw(encode(series)))
        try:
            response = self._client.post(self._url, content=body, headers=_HEADERS)
        except httpx.HTTPError as error:
            raise UnavailableError(f"{self._url}: {error or type(error).__name__}") from error
        if response.is_success:
            return
        text = response.text.strip()
        if response.status_code in _REFUSALS or _TOO_OLD in text:
            raise RefusedError(text)
        raise UnavailableError(
            f"{self._url}: {response.status_code} {text}", _retry_after(response)
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of a Retry-After header; one that gives a date is passed over."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None


def _encode_series(series: TimeSeries) -> bytes:
    labels = [
        _field(1, _field(1, name.encode()) + _field(2, value.encode()))
        for name, value in sorted(series.labels.items())
    ]
    by_high_bits = _SampleLayouts()
    samples = [
        pack(head, value, 0x10, 0x80 | time_ms & 0x7F, tail)
        for time_ms, value in zip(series.times_ms, series.values, strict=True)
        for pack, head, tail in [by_high_bits[time_ms >> 7]]
    ]
    return b"".join(labels + samples)


class _SampleLayouts(dict[int, tuple[Callable[..., bytes], bytes, bytes]]):
    """How to write a sample, by its time without the low seven bits.

    Samples of the same 128 ms share it, and most of the work of encoding with it.
    """

    def __missing__(self, high_bits: int) -> tuple[Callable[..., bytes], bytes, bytes]:
        tail = _varint(high_bits & _HIGH_57_BITS)
        head = b"\x12" + bytes([1 + 8 + 1 + 1 + len(tail)]) + b"\x09"
        pack = struct.Struct(f"<{len(head)}sdBB{len(tail)}s").pack
        layout = self[high_bits] = (pack, head, tail)
        return layout


def _field(number: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
