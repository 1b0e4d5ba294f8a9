"""How many samples a second go from a stream to Prometheus, until a query finds them all."""

import itertools
import json
import time
from pathlib import Path

from benchmarks.measure import Figure, repeat
from benchmarks.runs import append, store_run
from benchmarks.servers import running_prometheus
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
    database = open_database(f"sqlite:///{folder / 'mlbench.db'}")
    with running_prometheus(folder) as url:
        prometheus, delivery = PrometheusClient(url), Delivery(RemoteWriter(url))
        numbers = itertools.count(1)

        def once() -> float:
            run = store_run(f"rate-{next(numbers)}", "STARTED")
            lines = _lines()
            begin = time.perf_counter()
            append(run, 0, lines)
            while delivery.deliver_waiting():
                pass
            found = count(prometheus, run.id)
            seconds = time.perf_counter() - begin
            assert found.in_prometheus == found.recorded == _SAMPLES, found
            return _SAMPLES / seconds

        figures = [repeat("stream to Prometheus, until a query finds all", "samples/s", 5, once)]
        prometheus.close()
    database.close()
    return figures


def _lines() -> list[bytes]:
    """Return the lines of a rank that logged three metrics each millisecond until just now."""
    start = time.time() - _LINES / 1000
    return [
        json.dumps(
            {
                "time": start + step / 1000,
                "step": step,
                "metrics": dict.fromkeys(_METRICS, step / _LINES),
            }
        ).encode()
        + b"\n"
        for step in range(_LINES)
    ]
