"""Runs for a measurement: stored as if they had been run, with samples in Prometheus."""

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping

from mlbench_master.database.models import Run, run_owner
from mlbench_master.recording import streams
from tests.conftest import wait_for

_CHUNK_BYTES = 512 << 10
_TIMEOUT_SECONDS = 300.0


def store_run(name: str, state: str = "FINISHED", num_workers: int = 1, seconds: float = 0) -> Run:
    """Store a run with a duration. A running controller does not touch a run that has ended."""
    now = time.time()
    return Run.create(
        job_id="",
        name=name,
        benchmark="steps",
        args={},
        num_workers=num_workers,
        state=state,
        created_at=now,
        started_at=now - seconds if seconds else None,
        finished_at=now if state == "FINISHED" else None,
        # As of a run that was counted and sealed.
        delivery={"recorded": 0, "in_prometheus": 0, "record_only": 0},
        sealed_at=now,
    )


def append(run: Run, rank: int, lines: Iterable[bytes]) -> None:
    """Add lines to the metrics stream of a rank."""
    key = streams.StreamKey(run_owner(run.id), attempt=1, rank=rank, name=streams.METRICS)
    size, chunk = 0, bytearray()
    for line in lines:
        chunk += line
        if len(chunk) >= _CHUNK_BYTES:
            size = streams.append(key, size, bytes(chunk))
            chunk.clear()
    if chunk:
        streams.append(key, size, bytes(chunk))


def store_indexed(run: Run, *lines_of_ranks: Iterable[bytes]) -> Run:
    """Return a run after a running controller has indexed these lines of its ranks."""
    for rank, lines in enumerate(lines_of_ranks):
        append(run, rank, lines)
    wait_for(lambda: not streams.waiting(run_owner(run.id)), _TIMEOUT_SECONDS, "indexing")
    return run


def line(moment: float, metrics: Mapping[str, float], **fields: object) -> bytes:
    """Return a line of a metrics stream."""
    return json.dumps({"time": round(moment, 6), **fields, "metrics": metrics}).encode() + b"\n"


def metric_lines(metrics: int, steps: int, interval_seconds: float) -> Iterator[bytes]:
    """Yield a line for each step until just now, all metrics in each, with values of 17 digits."""
    values = random.Random(0)  # noqa: S311 - the same values each time, not a secret
    start = time.time() - steps * interval_seconds
    for step in range(steps):
        fields = ",".join(f'"metric_{i}":{values.random()!r}' for i in range(metrics))
        yield b'{"time":%.6f,"metrics":{%s}}\n' % (start + step * interval_seconds, fields.encode())
