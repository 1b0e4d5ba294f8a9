"""A master with a separate Prometheus, and an ended run with samples of all kinds."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from peewee import Database

from mlbench_master.archives import verifying
from mlbench_master.archives.sealing import Sealer
from mlbench_master.controller import sample_verification
from mlbench_master.controller.sample_verification import SampleVerifier
from mlbench_master.database.connection import store
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.counting import count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.settings import Settings
from tests.conftest import PrometheusServer, call_as_user
from tests.support import rows
from tests.support.reading import scrape
from tests.support.recording import Recording

POD = "w-0"


class Master:
    """Steps of the API and the controller, one at a time."""

    def __init__(self, server: PrometheusServer, settings: Settings) -> None:
        self.server = server
        self.writer, self.prometheus = RemoteWriter(server.url), PrometheusClient(server.url)
        self.recording = Recording.to(self.writer)
        self.verifier = SampleVerifier(self.prometheus, self.recording.exporter)
        self.api = call_as_user(settings, self.prometheus)
        self.folder = Path(settings.archive)
        self.sealer = Sealer(SeriesReader(self.prometheus, ArchiveStore(settings.archive)))

    def make_ended(self, name: str = "made", ago: float = 100.0, apart: float = 0.1) -> Run:
        """Store a run of two ranks that began a while ago, and export and count it.

        Its values are so many seconds ``apart``.
        """
        began = round(time.time()) - ago
        target = {"metric": "acc", "value": 97.0, "lower_is_better": False}
        run = rows.make_run(name=name, state="FINISHED", target=target, created_at=began)
        store(run, started_at=began)
        rows.make_ranks(run, [POD, "w-1"], assigned_at=began, exited_at=began + 90, exit_code=0)
        for rank in (0, 1):
            lines = b"".join(
                rows.line(began + apart * i, train_seconds=i / 30, acc=i / 8) for i in range(800)
            )
            rows.record(run, lines + rows.line(began + 60, note="kept", acc=1e400), rank)
        now_us = round((began + 80) * 1e6)
        posted = Sample("b", "", now_us + 7, 1.0, True, {"ä": [1]})
        rows.post(run_owner(run.id), [posted, Sample("b", "", 5, 2.0, False, "")])
        Run.update(finished_at=began + 90).where(Run.id == run.id).execute()
        for i in range(5):
            scrape(self.writer, POD, round((began + 10 * i) * 1000), i / 3)
        self.recording.run_all()
        Run.update(delivery=asdict(count(self.prometheus, run))).where(Run.id == run.id).execute()
        return rows.reload(run)

    def delete_blocks(self) -> None:
        """Let an hour pass after the end of all runs, which are sealed: archives are the record."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sample_verification, "KEPT_SECONDS", 0.0)
            self.verifier.turn()
        assert not Block.select().where(Block.owner.startswith("run/")).exists()

    def verify(self, run: Run) -> Any:
        return self.api.simulate_post(f"/api/runs/{run.id}/verification").json


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Folder of the archives."""
    return str(tmp_path / "archive")


@pytest.fixture
def master(
    own_prometheus: PrometheusServer,
    settings: Settings,
    database: Database,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Master]:
    monkeypatch.setattr(verifying, "_REWRITTEN_SECONDS", 0.0)
    settings = replace(settings, archive=place, prometheus_url=own_prometheus.url)
    found = Master(own_prometheus, settings)
    with closing(found.writer), closing(found.prometheus):
        yield found


@pytest.fixture
def run(master: Master) -> Run:
    """A run that has ended, counted and not yet sealed."""
    return master.make_ended()
