"""How long it takes to read a run's 100,000 samples through the API, in each format."""

import io
import json
import zipfile
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate
from benchmarks.servers import Source, measured_master
from benchmarks.stored import metric_lines, store_delivered, store_run
from mlbench_master.models import Run

SERIES = 20
SAMPLES = 100_000
# A run of eight minutes.
_INTERVAL_SECONDS = 0.1


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    with measured_master(folder) as master:
        path = f"/api/metrics/{store_long_run().id}/?metric_type=run&format="
        measures = {
            f"GET a run's 100,000 samples: {format_}": reading(master, path + format_, format_)
            for format_ in COUNT_SAMPLES
        }
        return alternate(7, "ms", measures)


def store_long_run() -> Run:
    """Return a run whose 100,000 samples a running controller has delivered."""
    lines = metric_lines(SERIES, SAMPLES // SERIES, _INTERVAL_SECONDS)
    return store_delivered(store_run("read-rate"), lines)


def reading(source: Source, path: str, format_: str) -> Measure:
    """Return what measures milliseconds until the last byte, and finds every sample in them."""

    def measure_once() -> float:
        answer = source.get(path)
        samples = COUNT_SAMPLES[format_](answer.body)
        assert samples == SAMPLES, f"{samples} samples in {path}"
        return answer.seconds * 1000

    return measure_once


def count_json(body: bytes) -> int:
    """Return how many samples a run's series hold."""
    return sum(len(points) for points in json.loads(body).values())


def count_zip(body: bytes) -> int:
    """Return how many samples the files of a run's series hold."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = [name for name in archive.namelist() if name.endswith(".json")]
        return sum(len(json.loads(archive.read(name))) for name in members)


def count_csv(body: bytes) -> int:
    """Return how many lines follow the first."""
    return len(body.splitlines()) - 1


COUNT_SAMPLES = {"json": count_json, "zip": count_zip, "csv": count_csv}
