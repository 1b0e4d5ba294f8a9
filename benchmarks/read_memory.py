"""How much memory the API takes to send the 5 million samples of a run, and how fast it is."""

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.runs import append, metric_lines, store_run, wait_until_delivered
from benchmarks.servers import Master, database_url, running_master, running_prometheus
from mlbench_master.models import Run, open_database

# Series, samples of each, and seconds between them.
_LONG = (10, 400_000, 0.01)
_SHORT = (100, 10_000, 0.1)
_SAMPLES = _LONG[0] * _LONG[1] + _SHORT[0] * _SHORT[1]
_ROUNDS = 2
_MB = 1_000_000

# Linux starts anew to keep the most memory that a process had once this is written: proc(5).
_FORGET_PEAK = "5"


@dataclass(frozen=True)
class _Reading:
    """What it took to read everything once."""

    peak_mb: float
    first_byte_seconds: float
    mb_a_second: float


def measure(folder: Path) -> list[Figure]:
    """Return MB above idle, seconds until the first byte, and MB a second."""
    database = open_database(database_url(folder))
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
    ):
        run = _store_large_run()
        idle_mb = _memory_mb(master, "VmRSS")
        figures = []
        for what, path, count_samples in (
            ("a run, json", f"/api/metrics/{run.id}/?metric_type=run", _count),
            ("a run, zip", f"/api/metrics/{run.id}/?metric_type=run&format=zip", _count_in_zip),
            ("all runs, json", "/api/metrics/?metric_type=run", _count),
        ):
            readings = [_read(master, path, count_samples, idle_mb) for _ in range(_ROUNDS)]
            figures += _figures(what, readings)
    database.close()
    return figures


def _store_large_run() -> Run:
    run = store_run("read-memory")
    for rank, (series, samples, interval_seconds) in enumerate((_LONG, _SHORT)):
        append(run, rank, metric_lines(series, samples, interval_seconds))
    wait_until_delivered(run)
    return run


def _read(
    master: Master, path: str, count_samples: Callable[[bytes], int], idle_mb: float
) -> _Reading:
    Path(f"/proc/{master.worker}/clear_refs").write_text(_FORGET_PEAK)
    answer = master.source.get(path)
    peak_mb = _memory_mb(master, "VmHWM") - idle_mb
    found = count_samples(answer.body)
    assert found == _SAMPLES, f"{found} samples in {path}"
    return _Reading(peak_mb, answer.first_byte_seconds, len(answer.body) / _MB / answer.seconds)


def _figures(what: str, readings: list[_Reading]) -> list[Figure]:
    return [
        Figure(
            f"GET 5 million samples, {what}: memory above idle", "MB", [r.peak_mb for r in readings]
        ),
        Figure(
            f"GET 5 million samples, {what}: first byte",
            "s",
            [r.first_byte_seconds for r in readings],
        ),
        Figure(f"GET 5 million samples, {what}: speed", "MB/s", [r.mb_a_second for r in readings]),
    ]


def _memory_mb(master: Master, field: str) -> float:
    status = Path(f"/proc/{master.worker}/status").read_text()
    found = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)
    assert found, status
    return int(found[1]) * 1024 / _MB


def _count(body: bytes) -> int:
    """Return how many samples a body of JSON holds: to parse it all would take gigabytes."""
    return body.count(b'"date"')


def _count_in_zip(body: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return sum(_count(archive.read(name)) for name in archive.namelist())
