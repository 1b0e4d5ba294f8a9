"""How many samples a second go from a stream to Prometheus, until a query finds them all."""

import itertools
import json
import time
from pathlib import Path

from benchmarks.measure import Figure, repeat
from benchmarks.servers import running_prometheus
from master.models import Run, open_database, run_owner
from master.reading.counting import count
from master.reading.promql import PrometheusClient
from master.recording import streams
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter

_LINES = 50_000
_METRICS = ("train_loss", "learning_rate", "grad_norm")
# And the step, which is a series of its own.
_SAMPLES = _LINES * (len(_METRICS) + 1)
_CHUNK_BYTES = 512 << 10


def measure(folder: Path) -> list[Figure]:
    """Return samples a second, end to end."""
    database = open_database(f"sqlite:///{folder / 'mlbench.db'}")
    with running_prometheus(folder) as url:
        prometheus, delivery = PrometheusClient(url), Delivery(RemoteWriter(url))
        numbers = itertools.count(1)

        def once() -> float:
            run = _run(next(numbers))
            lines = _lines()
            begin = time.perf_counter()
            _append(run, lines)
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


def _run(number: int) -> Run:
    return Run.create(
        job_id="",
        name=f"rate-{number}",
        benchmark="steps",
        args={},
        num_workers=1,
        state="STARTED",
        created_at=time.time(),
    )


def _lines() -> bytes:
    """Return the lines of a rank that logged three metrics each millisecond until just now."""
    start = time.time() - _LINES / 1000
    return b"".join(
        json.dumps(
            {
                "time": start + step / 1000,
                "step": step,
                "metrics": dict.fromkeys(_METRICS, step / _LINES),
            }
        ).encode()
        + b"\n"
        for step in range(_LINES)
    )


def _append(run: Run, lines: bytes) -> None:
    key = streams.StreamKey(run_owner(run.id), attempt=1, rank=0, name=streams.METRICS)
    for offset in range(0, len(lines), _CHUNK_BYTES):
        streams.append(key, offset, lines[offset : offset + _CHUNK_BYTES])
