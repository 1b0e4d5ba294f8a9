"""A real Prometheus for a measurement."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from master.reading.promql import PrometheusClient
from mlbench.stack.services import Ports, find_prometheus, prometheus_config

_READY_SECONDS = 30.0


@contextmanager
def running_prometheus(folder: Path) -> Iterator[str]:
    """Run Prometheus with an empty disk, and give its URL."""
    shutil.copy(prometheus_config(), folder)
    port = Ports().near(19090)
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("ab") as log:
        process = subprocess.Popen(
            [
                find_prometheus(),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--web.enable-remote-write-receiver",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        client = PrometheusClient(url)
        deadline = time.monotonic() + _READY_SECONDS
        while not client.ready():
            assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.05)
        client.close()
        yield url
    finally:
        process.terminate()
        process.wait()
