"""How much memory the API takes to send the 5 million samples of a run, and how fast it is."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.servers import Master, measured_master
from benchmarks.stored import metric_lines, store_delivered, store_run

# Series, samples of each, and seconds between them.
_LONG = (10, 400_000, 0.01)
_SHORT = (100, 10_000, 0.1)
_SAMPLES = _LONG[0] * _LONG[1] + _SHORT[0] * _SHORT[1]
_ROUNDS = 2
_MB = 1_000_000

# Linux starts anew to keep the most memory that a process had once this is written: proc(5).
_FORGET_PEAK = "5"


def measure(folder: Path) -> Iterator[Figure]:
    """Yield MB above idle, seconds until the first byte, and MB a second."""
    with measured_master(folder) as master:
        lines = (metric_lines(*series) for series in (_LONG, _SHORT))
        run = store_delivered(store_run("read-memory"), *lines)
        idle_mb = _memory_mb(master, "VmRSS")
        for what, path, count_samples in (
            ("a run, json", f"/api/metrics/{run.id}/?metric_type=run", _count),
            ("a run, zip", f"/api/metrics/{run.id}/?metric_type=run&format=zip", _count_in_zip),
            ("all runs, json", "/api/metrics/?metric_type=run", _count),
        ):
            rounds = [_read(master, path, count_samples) for _ in range(_ROUNDS)]
            peaks_mb, first_bytes, speeds = zip(*rounds, strict=True)
            answer = f"GET 5 million samples, {what}"
            yield Figure(f"{answer}: memory above idle", "MB", [mb - idle_mb for mb in peaks_mb])
            yield Figure(f"{answer}: first byte", "s", first_bytes)
            yield Figure(f"{answer}: speed", "MB/s", speeds)


def _read(
    master: Master, path: str, count_samples: Callable[[bytes], int]
) -> tuple[float, float, float]:
    """Return the peak of the memory in MB, seconds until the first byte, and MB a second."""
    Path(f"/proc/{master.worker}/clear_refs").write_text(_FORGET_PEAK)
    answer = master.get(path)
    peak_mb = _memory_mb(master, "VmHWM")
    samples = count_samples(answer.body)
    assert samples == _SAMPLES, f"{samples} samples in {path}"
    return peak_mb, answer.first_byte_seconds, len(answer.body) / _MB / answer.seconds


def _memory_mb(master: Master, field: str) -> float:
    status = Path(f"/proc/{master.worker}/status").read_text()
    kilobytes = re.search(rf"^{field}:\s*(\d+) kB$", status, re.MULTILINE)
    assert kilobytes, status
    return int(kilobytes[1]) * 1024 / _MB


def _count(body: bytes) -> int:
    """Return how many samples a body of JSON holds: to parse it all would take gigabytes."""
    return body.count(b'"date"')


def _count_in_zip(body: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return sum(_count(archive.read(name)) for name in archive.namelist())
