"""How many samples a second go from a stream to Prometheus, until a query finds them all."""

import itertools
import time
from pathlib import Path

from benchmarks.measure import Figure, alternate
from benchmarks.servers import database_url, running_prometheus
from benchmarks.stored import append, line, store_run
from mlbench_master.models import open_database
from mlbench_master.reading.counting import count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.delivery import Delivery
from mlbench_master.recording.remote_write import RemoteWriter

_LINES = 50_000
_METRICS = ("train_loss", "learning_rate", "grad_norm")
# And the step, which is a series of its own.
_SAMPLES = _LINES * (len(_METRICS) + 1)


def measure(folder: Path) -> list[Figure]:
    """Return samples a second, end to end."""
    database = open_database(database_url(folder))
    with running_prometheus(folder) as url:
        prometheus, delivery = PrometheusClient(url), Delivery(RemoteWriter(url))
        numbers = itertools.count(1)

        def measure_once() -> float:
            run = store_run(f"rate-{next(numbers)}", "STARTED")
            lines = _lines()
            begin = time.perf_counter()
            append(run, 0, lines)
            while delivery.deliver_waiting():
                pass
            counted = count(prometheus, run.id)
            seconds = time.perf_counter() - begin
            assert counted.in_prometheus == counted.recorded == _SAMPLES, counted
            return _SAMPLES / seconds

        what = "stream to Prometheus, until a query finds all"
        figures = alternate(5, "samples/s", {what: measure_once})
        prometheus.close()
    database.close()
    return figures


def _lines() -> list[bytes]:
    """Return the lines of a rank that logged three metrics each millisecond until just now."""
    start = time.time() - _LINES / 1000
    return [
        line(start + step / 1000, dict.fromkeys(_METRICS, step / _LINES), step=step)
        for step in range(_LINES)
    ]
