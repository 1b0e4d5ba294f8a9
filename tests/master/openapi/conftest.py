"""Fixtures for tests of the OpenAPI document: the master with the objects of the examples."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from peewee import Database

from mlbench.contract.conversion import convert
from mlbench.evaluation.inputs import InjectedFault
from mlbench_master.database.models import Diagnosis, JoinToken, Pod, Profile, Run
from mlbench_master.recording import streams
from mlbench_master.runs import benchmark_sets
from mlbench_master.runs.requests import SetRequest
from mlbench_master.settings import InstallationLimits
from tests.conftest import PrometheusServer, free_port
from tests.support.rows import key, line, make_ranks, make_run, record, ship_files
from tests.support.serving import serve_master

_SET: dict[str, Any] = {
    "name": "scaling",
    "benchmark": "digits",
    "num_cpus": 1,
    "slots": [{"num_workers": 2, "seed": 1}, {"num_workers": 1, "seed": 1}],
}
_PODS = ("local-mlbench-worker-0", "local-mlbench-worker-1")


@pytest.fixture
def example_run(database: Database) -> Run:
    """Run 1 of the examples: active, in a set, with log and samples. Runs 2 to 19 have ended."""
    for name in _PODS:
        Pod.create(name=name, phase="Running", ip="127.0.0.1", node="here", labels={})
    JoinToken.create(holder="5f0c2a6de1b94d3f8a7c6b5d4e3f2a10", expires_at=time.time() + 600)
    benchmark_sets.register(convert(SetRequest, _SET), InstallationLimits())
    hand = asdict(InjectedFault(rank=0, fault="kill", due_at=time.time()))
    run = make_run(id=1, set_name="scaling", slot=1, injected=[hand])
    make_ranks(run, _PODS)
    # In the future, because generating a client takes longer than the timeout for evidence.
    Diagnosis.create(run=run, attempt=1, reason="stalled", asked_at=time.time() + 600)
    Profile.create(run=run, attempt=1, rank=0, seconds=5, asked_at=time.time())
    streams.append(key(run, 1, "stdout"), 0, b"text\n")
    ship_files(run, {"plots/loss.csv": b"step,loss\n1,0.31\n"})
    record(run, line(run.created_at, train_loss=0.31), rank=1)
    for ended in range(2, 20):
        make_run(id=ended, state="FINISHED")
    return run


@pytest.fixture
def server(
    example_run: Run, shared_prometheus: PrometheusServer, database_url: str, tmp_path: Path
) -> Iterator[httpx.URL]:
    """The URL of a master under gunicorn, as in a stack."""
    there = shared_prometheus.url
    with serve_master(tmp_path, free_port(), there, database=database_url) as connection:
        yield httpx.URL(connection.url)
