"""The application that the document is held against, with what its examples speak of."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from peewee import Database

from master.models import Pod, Run
from master.recording import streams
from tests.conftest import AGENT_SECRET, USER_TOKEN, PrometheusServer, free_port, wait_for
from tests.master.making import key, line, make_ranks, make_run, record

_PODS = ("local-mlbench-worker-0", "local-mlbench-worker-1")


@pytest.fixture
def example_run(database: Database) -> Run:
    """Run 1 of the examples: active, on two pods, with a log and a sample; others have ended."""
    for name in _PODS:
        Pod.create(name=name, phase="Running", ip="127.0.0.1", node="here", labels={})
    run = make_run(id=1)
    make_ranks(run, _PODS)
    streams.append(key(run, 1, "stdout"), 0, b"text\n")
    record(run, line(run.created_at, train_loss=0.31), rank=1)
    for ended in range(2, 20):
        make_run(id=ended, state="FINISHED")
    return run


@pytest.fixture
def server(
    example_run: Run, shared_prometheus: PrometheusServer, database_url: str, tmp_path: Path
) -> Iterator[httpx.URL]:
    """The master's API under gunicorn, as a stack serves it."""
    port = free_port()
    url = httpx.URL(f"http://127.0.0.1:{port}")
    environ = {
        "MLBENCH_HOME": str(tmp_path / "home"),
        "MLBENCH_PROMETHEUS_URL": shared_prometheus.url,
        "MLBENCH_TOKEN": USER_TOKEN,
        "MLBENCH_AGENT_SECRET": AGENT_SECRET,
        "DATABASE_URL": database_url,
    }
    command = [sys.executable, "-m", "gunicorn", "--config", "python:master.gunicorn_conf"]
    process = subprocess.Popen(
        [*command, "--bind", f"127.0.0.1:{port}"],
        env=os.environ | environ,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _answers(url), what="gunicorn answers")
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: httpx.URL) -> bool:
    try:
        return httpx.get(url.join("/healthz")).is_success
    except httpx.HTTPError:
        return False
