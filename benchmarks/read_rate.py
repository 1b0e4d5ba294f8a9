"""How long it takes to read a run's 100,000 samples through the API, in each format."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Figure, alternate
from benchmarks.runs import append, metric_lines, store_run, wait_until_delivered
from benchmarks.servers import Master, database_url, running_master, running_prometheus
from mlbench_master.models import Run, open_database

SERIES = 20
SAMPLES = 100_000
# A run of eight minutes.
_INTERVAL_SECONDS = 0.1


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    database = open_database(database_url(folder))
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
    ):
        run = store_long_run()
        figures = alternate(
            7,
            [
                (f"GET a run's 100,000 samples: {format_}", "ms", reading(master, run, format_))
                for format_ in COUNT_SAMPLES
            ],
        )
    database.close()
    return figures


def store_long_run() -> Run:
    """Return a run whose 100,000 samples a running controller has delivered."""
    run = store_run("read-rate")
    append(run, 0, metric_lines(SERIES, SAMPLES // SERIES, _INTERVAL_SECONDS))
    wait_until_delivered(run)
    return run


def reading(master: Master, run: Run, format_: str) -> Callable[[], float]:
    """Return what measures milliseconds until the last byte, and finds every sample in them."""
    path = f"/api/metrics/{run.id}/?metric_type=run&format={format_}"

    def once() -> float:
        answer = master.source.get(path)
        found = COUNT_SAMPLES[format_](answer.body)
        assert found == SAMPLES, f"{found} samples in {path}"
        return answer.seconds * 1000

    return once


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
