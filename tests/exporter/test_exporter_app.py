"""The real process: it serves what it should, and ends as its supervisor expects."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlbench import names

from .conftest import StartPod

COMMAND = (sys.executable, "-m", "exporter.app", "--port")


@contextmanager
def exporter(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the exporter on a free port; yield the process and the address that it serves."""
    environ = os.environ | {names.ENV_HOME: str(home)}
    with subprocess.Popen(
        [*COMMAND, "0"], env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            found = re.search(r"serving (http://127\.0\.0\.1:\d+/metrics)$", line)
            assert found, line
            yield process, found[1]
        finally:
            process.kill()


def test_it_serves_the_pods_of_its_home(
    start_pod: StartPod, tmp_path: Path, promtool: Path
) -> None:
    start_pod("local-mlbench-worker-0")
    start_pod("local-mlbench-worker-1", home=tmp_path / "other")

    with exporter(tmp_path) as (_, url):
        text = httpx.get(url).raise_for_status().text

    found = {family.name: family.samples for family in text_string_to_metric_families(text)}
    (processes,) = found["container_processes"]
    assert processes.value == 1
    assert processes.labels == {
        "namespace": "local",
        "pod": "local-mlbench-worker-0",
        "container": "worker",
        "node": os.uname().nodename,
    }
    (up,) = found["mlbench_exporter_source_up"]
    assert (up.labels, up.value) == ({"source": "processes"}, 1)
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_it_is_told_to(tmp_path: Path, stop: signal.Signals) -> None:
    with exporter(tmp_path) as (process, url):
        httpx.get(url).raise_for_status()
        process.send_signal(stop)
        _, rest = process.communicate(timeout=5)

    assert (process.returncode, rest) == (0, "")


def test_it_says_when_the_port_is_taken(tmp_path: Path) -> None:
    with exporter(tmp_path) as (_, url):
        port = str(httpx.URL(url).port)
        second = subprocess.run(
            [*COMMAND, port], capture_output=True, text=True, check=False, timeout=5
        )

    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in second.stderr
    assert "Traceback" not in second.stderr
