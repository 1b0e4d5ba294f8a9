"""The writer: the controller's requests to Prometheus, and where the samples went."""

import time
from collections.abc import Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from master.recording.remote_write import RefusedError, RemoteWriter, TimeSeries, UnavailableError

_Answer = Literal["accepted", "refused", "unavailable"]
_ANSWERS: tuple[_Answer, ...] = ("accepted", "refused", "unavailable")
_OUTCOMES = ("delivered", "kept", "refused")


class WriterMetrics:
    """What is counted of the way to Prometheus."""

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
            "Samples by where they went: to Prometheus, or kept as it cannot hold or refused them.",
            ("outcome",),
            registry=registry,
        )
        # From 0 on, or the first of a kind would be no increase.
        for answer in _ANSWERS:
            self._requests.labels(answer)
        for outcome in _OUTCOMES:
            self._samples.labels(outcome)

    def count_request(self, answer: _Answer, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(answer).inc()
        self._seconds.observe(seconds)
        if answer == "accepted":
            self._success.set_to_current_time()

    def count_samples(self, delivered: int, kept: int, refused: int) -> None:
        """Count the samples of a batch; those that Prometheus refused are not among the kept."""
        self._samples.labels("delivered").inc(delivered)
        self._samples.labels("kept").inc(kept)
        self._samples.labels("refused").inc(refused)


class MeasuredWriter(RemoteWriter):
    """A remote writer whose requests are counted and timed."""

    def __init__(self, prometheus_url: str, metrics: WriterMetrics) -> None:
        super().__init__(prometheus_url)
        self._metrics = metrics

    def send(self, series: Sequence[TimeSeries]) -> None:
        """Send the series in one request; see ``RemoteWriter.send``."""
        began = time.perf_counter()
        answer: _Answer = "accepted"
        try:
            super().send(series)
        except RefusedError:
            answer = "refused"
            raise
        except UnavailableError:
            answer = "unavailable"
            raise
        finally:
            self._metrics.count_request(answer, time.perf_counter() - began)
