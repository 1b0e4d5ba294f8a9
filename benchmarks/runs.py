"""Runs for a measurement: stored as if they had been run, with samples in Prometheus."""

import random
import time
from collections.abc import Iterable, Iterator

from mlbench_master.models import Run, run_owner
from mlbench_master.recording import streams

_CHUNK_BYTES = 512 << 10
_PATIENCE_SECONDS = 300.0


def store_run(name: str, state: str = "FINISHED") -> Run:
    """Store a run; one that is over is left alone by a running controller."""
    now = time.time()
    return Run.create(
        job_id="",
        name=name,
        benchmark="steps",
        args={},
        num_workers=1,
        state=state,
        created_at=now,
        finished_at=now,
        # As of a run that ended more than an hour ago.
        settled_at=now,
    )


def append(run: Run, rank: int, lines: Iterable[bytes]) -> None:
    """Add lines to the metrics stream of a rank."""
    key = streams.StreamKey(run_owner(run.id), attempt=1, rank=rank, name=streams.METRICS)
    size = 0
    for chunk in _chunks(lines):
        size = streams.append(key, size, chunk)


def wait_until_delivered(run: Run) -> None:
    """Wait until a running controller has delivered all samples of a run."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while streams.waiting(run_owner(run.id)):
        assert time.monotonic() < deadline, f"not delivered within {_PATIENCE_SECONDS} s"
        time.sleep(0.1)


def metric_lines(metrics: int, steps: int, interval_seconds: float) -> Iterator[bytes]:
    """Yield a line for each step until just now, all metrics in each, with values of 17 digits."""
    values = random.Random(0)  # noqa: S311 - the same values each time, not a secret
    start = time.time() - steps * interval_seconds
    for step in range(steps):
        fields = ",".join(f'"metric_{i}":{values.random()!r}' for i in range(metrics))
        yield b'{"time":%.6f,"metrics":{%s}}\n' % (start + step * interval_seconds, fields.encode())


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = 0
    for line in lines:
        pieces.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)
