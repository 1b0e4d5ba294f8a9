"""A master with a Prometheus of its own, and an ended run with samples of all kinds."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from peewee import Database

from mlbench_master.archives.sealing import Sealer
from mlbench_master.database.models import Run, run_owner
from mlbench_master.reading.counting import count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.settings import Settings
from tests.conftest import PrometheusServer, call_as_user
from tests.support import rows
from tests.support.reading import scrape

POD = "w-0"


class Master:
    """What the API and the controller do, a step at a time."""

    def __init__(self, server: PrometheusServer, settings: Settings) -> None:
        self.server = server
        self.writer, self.prometheus = RemoteWriter(server.url), PrometheusClient(server.url)
        self.delivery = SampleDelivery(self.writer)
        self.api = call_as_user(settings, self.prometheus)
        self.folder = Path(settings.archive)
        self.sealer = Sealer(SeriesReader(self.prometheus, ArchiveStore(settings.archive)))

    def make_ended(self, name: str = "made", ago: float = 100.0, apart: float = 0.1) -> Run:
        """Store a run of two ranks that began a while ago, and deliver and count it.

        Its values are so many seconds ``apart``.
        """
        began = round(time.time()) - ago
        target = {"metric": "acc", "value": 97.0, "lower_is_better": False}
        run = rows.make_run(name=name, state="FINISHED", target=target, created_at=began)
        run.started_at = began
        run.save()
        rows.make_ranks(run, [POD, "w-1"], assigned_at=began, exited_at=began + 90, exit_code=0)
        for rank in (0, 1):
            lines = [
                rows.line(began + apart * i, train_seconds=i / 30, acc=i / 8) for i in range(800)
            ]
            rows.record(run, b"".join(lines) + rows.line(began + 60, note="kept", acc=1e400), rank)
        now_us = round((began + 80) * 1e6)
        posted = Sample("b", "", now_us + 7, 1.0, True, {"ä": [1]})
        rows.post(run_owner(run.id), [posted, Sample("b", "", 5, 2.0, False, "")])
        Run.update(finished_at=began + 90).where(Run.id == run.id).execute()
        for i in range(5):
            scrape(self.writer, POD, round((began + 10 * i) * 1000), i / 3)
        rows.deliver_all(self.delivery)
        Run.update(delivery=asdict(count(self.prometheus, run.id))).where(
            Run.id == run.id
        ).execute()
        return rows.reload(run)

    def write(self, labels: Mapping[str, str], points: list[tuple[int, float]]) -> None:
        """Write (milliseconds, value) to Prometheus."""
        self.writer.send([rows.time_series(labels, points)])

    def verify(self, run: Run, **params: object) -> Any:
        return self.api.simulate_post(f"/api/runs/{run.id}/verification", params=params).json


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where archives lie."""
    return str(tmp_path / "archive")


@pytest.fixture
def master(
    own_prometheus: PrometheusServer, settings: Settings, database: Database, place: str
) -> Iterator[Master]:
    settings = replace(settings, archive=place, prometheus_url=own_prometheus.url)
    found = Master(own_prometheus, settings)
    with closing(found.writer), closing(found.prometheus):
        yield found
