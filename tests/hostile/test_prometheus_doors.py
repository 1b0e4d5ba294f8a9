"""Only the stack's own services may write to its Prometheus."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import cramjam
import httpx
import psutil
import pytest

from mlbench.contract import names
from mlbench.contract.login import split_login
from mlbench.local import launch
from mlbench.local.home import Home
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.remote_write import RemoteWriter, UnavailableError
from tests.support import rows
from tests.support.known import known
from tests.support.stacks import files_of


@pytest.fixture(scope="module")
def prometheus_url(stack: Home) -> str:
    return known(stack.read_connection().prometheus_url)


@pytest.fixture(scope="module")
def prometheus(prometheus_url: str) -> Iterator[PrometheusClient]:
    with closing(PrometheusClient(prometheus_url)) as client:
        yield client


def forged(metric: str) -> rows.TimeSeries:
    return rows.level(names.RUN_METRIC, [time.time()], 99.9, run_id="1000000", metric=metric)


def stored(prometheus: PrometheusClient, metric: str) -> int:
    """Return the number of series of a metric."""
    return len(prometheus.query(f'{names.RUN_METRIC}{{run_id="1000000",metric="{metric}"}}'))


def test_a_write_without_password_or_path_is_refused(
    prometheus_url: str, prometheus: PrometheusClient
) -> None:
    url, login = split_login(prometheus_url)
    assert login is not None
    root = str(httpx.URL(url).copy_with(path="/")).rstrip("/")
    body = bytes(cramjam.snappy.compress_raw(rows.write_request([forged("refused")]).encode()))
    ends = {f"{url}/api/v1/write": 401, f"{root}/api/v1/write": 401}
    for target, status in ends.items():
        assert httpx.post(target, content=body).status_code == status
        assert httpx.post(target, content=body, auth=("mlbench", "wrong")).status_code == status
    assert httpx.post(f"{root}/api/v1/write", content=body, auth=login).status_code == 404
    with closing(RemoteWriter(url)) as stranger, pytest.raises(UnavailableError, match="401"):
        rows.send(stranger, forged("refused"))
    assert stored(prometheus, "refused") == 0
    with closing(RemoteWriter(prometheus_url)) as ours:
        rows.send(ours, forged("taken"))
    assert stored(prometheus, "taken") == 1


def test_the_password_is_only_in_private_files(stack: Home, prometheus_url: str) -> None:
    _, login = split_login(prometheus_url)
    assert login is not None
    supervisor = known(launch.running_supervisor(stack))
    commands = [
        " ".join(process.cmdline()) for process in psutil.Process(supervisor).children(True)
    ]
    assert len(commands) >= 6
    assert not [command for command in commands if login.password in command]
    holding = {path for path in files_of(stack) if holds(path, login.password)}
    assert {path.name for path in holding} == {
        *("connection.json", "prometheus-password", "password")
    }
    assert {path.stat().st_mode & 0o777 for path in holding} == {0o600}


def holds(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except FileNotFoundError:  # a temporary file, or a file that Prometheus compacted
        return False
