"""Fixtures for tests of the master: a run, a recording to a real Prometheus, and its clients."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from peewee import Database

from mlbench_master.database.models import Run
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording import blocks, export
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import PrometheusServer
from tests.support.recording import Recording
from tests.support.rows import NO_ARCHIVES, make_run


@pytest.fixture
def run(database: Database) -> Run:
    """An active run with two workers."""
    return make_run()


@pytest.fixture
def writer(shared_prometheus: PrometheusServer) -> Iterator[RemoteWriter]:
    with closing(RemoteWriter(shared_prometheus.url)) as writer:
        yield writer


@pytest.fixture
def recording(writer: RemoteWriter, database: Database) -> Recording:
    return Recording.to(writer)


@pytest.fixture
def prometheus(shared_prometheus: PrometheusServer) -> Iterator[PrometheusClient]:
    with closing(PrometheusClient(shared_prometheus.url)) as client:
        yield client


@pytest.fixture
def reader(prometheus: PrometheusClient) -> SeriesReader:
    return SeriesReader(prometheus, NO_ARCHIVES)


class Clock:
    """A clock in seconds that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def joined_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks with fewer than 30 samples are joined, three at a time."""
    monkeypatch.setattr(blocks, "SMALL", 30)
    for module in (blocks, export):
        monkeypatch.setattr(module, "JOINED_AT_ONCE", 3)
