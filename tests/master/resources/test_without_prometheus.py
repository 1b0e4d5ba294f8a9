"""Without Prometheus, all routes about runs still return all samples."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import Result, TestClient

from mlbench_master.archives.sealing import Sealer
from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording import streams
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.settings import Settings
from tests.conftest import PrometheusServer, call_as_user
from tests.master.routes import USER_ROUTES, fill
from tests.support.reading import OLD_US
from tests.support.recording import Recording
from tests.support.rows import key, line, make_ranks, make_run, post, record, reload, ship_files

_TARGET = {"metric": "acc", "value": 97.0, "lower_is_better": False}
# Alerts need Prometheus, and these runs have no diagnosis.
_OTHERS = {"/api/runs/{run_id:int}/alerts", "/api/runs/{run_id:int}/diagnosis"}
_READ = [path for method, path in USER_ROUTES if method == "GET"]
_OF_RUN = [path for path in _READ if "{run_id" in path and path not in _OTHERS]
_OF_RUNS = [
    *("/api/runs", "/api/runs/counts", "/api/runs/fields", "/api/info/storage"),
    *("/api/metrics?metric_type=run", "/api/metrics?metric_type=run&format=csv"),
]


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, archive=str(tmp_path / "archive"))


@pytest.fixture
def prometheus(own_prometheus: PrometheusServer) -> Iterator[PrometheusClient]:
    with closing(PrometheusClient(own_prometheus.url)) as client:
        yield client


def make_recorded(recording: Recording, **last: Any) -> Run:
    """Record samples of all kinds, including texts, old timestamps and duplicates."""
    begin = float(round(time.time()) - 100)
    run = make_run(target=_TARGET, created_at=begin, started_at=begin)
    make_ranks(run, assigned_at=begin)
    for rank in (0, 1):
        for s in range(1, 60):
            record(run, line(begin + s, step=s, acc=s, train_seconds=s / 2, loss=1 / s), rank)
        odd = line(begin + 59.0004, acc=97.5) + line(begin + 60, note="a text")
        record(run, odd + line(begin - 40 * 3600, old=1), rank)
    posted = Sample("posted", "", OLD_US, 1.0, True, {"k": "v"})
    post(run_owner(run.id), [posted])
    streams.append(key(run, 1, "stdout"), 0, b"text\n")
    ship_files(run, {"plots/loss.csv": b"step,loss\n1,0.31\n"})
    recording.run_all()
    if last:
        Run.update(**last).where(Run.id == run.id).execute()
    return reload(run)


def seal(reader: SeriesReader, run: Run) -> None:
    """Seal a run and delete its blocks, like the controller an hour after the end."""
    Sealer(reader).seal(reload(run))
    Run.update(blocks_deleted_at=time.time()).where(Run.id == run.id).execute()
    Block.delete().where(Block.owner == run_owner(run.id)).execute()


def get(api: TestClient, path: str) -> Result:
    path, _, query = path.partition("?")
    return api.simulate_get(path, query_string=query)


def content_of(answer: Result) -> Any:
    """Return the body of a response, or its size if it is a zip file."""
    kind = answer.headers["Content-Type"]
    if "zip" in kind:
        return len(answer.content)
    return json.loads(answer.text) if "json" in kind else answer.text


@pytest.mark.usefixtures("database")
def test_every_route_about_runs_returns_all_samples(
    settings: Settings, own_prometheus: PrometheusServer, prometheus: PrometheusClient
) -> None:
    with closing(RemoteWriter(own_prometheus.url)) as writer:
        recording = Recording.to(writer)
        ending: dict[str, Any] = {"state": "FINISHED", "finished_at": round(time.time()) - 30.0}
        active, waiting = make_recorded(recording), make_recorded(recording)
        ended, sealed = (make_recorded(recording, **ending) for _ in range(2))
        record(waiting, line(time.time(), late=1))
    seal(SeriesReader(prometheus, ArchiveStore(settings.archive)), sealed)
    api = call_as_user(settings, prometheus)

    def routes(run: Run) -> list[str]:
        found = [fill(path, {"run_id": str(run.id)}) for path in _OF_RUN]
        if run is not sealed:
            found = [path for path in found if not path.endswith("/archive")]
        metrics = f"/api/metrics/{run.id}?metric_type=run"
        asked = ("", "&summarize=7", "&last_n=3", "&metric_filter=acc", "&format=csv")
        return [*found, *(metrics + more for more in asked), f"/api/compare?runs={run.id}"]

    paths = [path for run in (ended, sealed) for path in routes(run)]
    before = {path: content_of(get(api, path)) for path in paths}
    own_prometheus.kill()
    for path in paths:
        answer = get(api, path)
        assert (path, answer.status_code) == (path, 200)
        assert (path, content_of(answer)) == (path, before[path])
    for run in (active, waiting):
        for path in routes(run):
            assert (path, get(api, path).status_code) == (path, 200)
        series = get(api, f"/api/metrics/{run.id}?metric_type=run").json
        counts = {name: len(points) for name, points in series.items()}
        of_rank = {"acc": 60, "loss": 59, "note": 1, "old": 1, "step": 59, "train_seconds": 59}
        expected = {f"{name} @ {rank}": n for name, n in of_rank.items() for rank in (0, 1)}
        assert counts == expected | {"posted": 1} | ({"late @ 0": 1} if run is waiting else {})
        assert series["posted"][0]["metadata"] == {"k": "v"}
        [curve] = get(api, f"/api/runs/curves?runs={run.id}").json
        assert max(curve["values"]) == 97.5
    for path in _OF_RUNS:
        assert (path, get(api, path).status_code) == (path, 200)
    everything = get(api, "/api/metrics?metric_type=run").json
    assert everything.keys() == {str(run.id) for run in (active, ended, sealed, waiting)}
    assert all(len(series["acc @ 1"]) == 60 for series in everything.values())


@pytest.mark.usefixtures("database")
def test_a_zip_with_usage_of_pods_needs_prometheus(
    settings: Settings, own_prometheus: PrometheusServer, prometheus: PrometheusClient
) -> None:
    with closing(RemoteWriter(own_prometheus.url)) as writer:
        run = make_recorded(Recording.to(writer))
    api = call_as_user(settings, prometheus)
    path = f"/api/metrics/{run.id}?metric_type=run&format=zip"
    assert get(api, path).status_code == 200
    own_prometheus.kill()
    answer = get(api, path)
    assert (answer.status_code, answer.json["status"]) == (503, 503)
