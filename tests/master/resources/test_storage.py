"""``/api/info/storage/``: size of the stored data, and missing samples."""

from pathlib import Path

import pytest
from falcon.testing import TestClient

from mlbench_master.app import create_app
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.resources.storage import StorageResource
from mlbench_master.settings import Settings
from tests.conftest import call_as_user
from tests.support.rows import make_run


@pytest.mark.usefixtures("database")
def test_imported_runs_lack_no_samples(settings: Settings, prometheus: PrometheusClient) -> None:
    whole = {"recorded": 100, "in_prometheus": 90, "record_only": 10}
    make_run(state="FINISHED", delivery=whole)
    make_run(state="FAILED", delivery=whole | {"in_prometheus": 83})
    origin = {"installation": "lab", "run_id": 3, "imported_at": 0.0}
    make_run(state="FINISHED", delivery=whole | {"in_prometheus": 0}, origin=origin)
    make_run(state="STARTED")
    storage = call_as_user(settings, prometheus).simulate_get("/api/info/storage/").json
    assert (storage["recorded_samples"], storage["missing_samples"]) == (200, 7)
    assert storage["database"]["kind"] == "sqlite"
    assert storage["database"]["bytes"] > 4096


@pytest.mark.usefixtures("database")
def test_prometheus_version_and_retention(settings: Settings, prometheus: PrometheusClient) -> None:
    storage = call_as_user(settings, prometheus).simulate_get("/api/info/storage/").json
    assert storage["prometheus"]["version"][0].isdigit()
    assert storage["prometheus"]["retention"]


@pytest.mark.usefixtures("database")
def test_parts_that_do_not_respond_are_unknown(settings: Settings) -> None:
    away = PrometheusClient("http://127.0.0.1:9", 0.5)
    archives = ArchiveStore("nowhere://bucket")
    resource = StorageResource(away, archives)
    app = create_app(settings, away)
    app.add_route("/api/test", resource)
    headers = {"Authorization": f"Bearer {settings.token}"}
    storage = TestClient(app, headers=headers).simulate_get("/api/test").json
    assert (storage["prometheus"], storage["archives"]) == (None, None)


@pytest.mark.usefixtures("database")
def test_sizes_are_measured_again_after_a_while(
    tmp_path: Path, settings: Settings, prometheus: PrometheusClient
) -> None:
    now = [0.0]
    resource = StorageResource(prometheus, ArchiveStore(f"{tmp_path}"), lambda: now[0])
    app = create_app(settings, prometheus)
    app.add_route("/api/test", resource)
    headers = {"Authorization": f"Bearer {settings.token}"}
    client = TestClient(app, headers=headers)

    def archives() -> object:
        return client.simulate_get("/api/test").json["archives"]

    assert archives() == {"archives": 0, "bytes": 0, "is_remote": False}
    (tmp_path / "a-1.mlbench").write_bytes(b"12345")
    (tmp_path / "a-1.added.mlbench").write_bytes(b"678")
    (tmp_path / "a-1.annotations.json").write_bytes(b"{}")
    assert archives() == {"archives": 0, "bytes": 0, "is_remote": False}
    now[0] = 31.0
    assert archives() == {"archives": 1, "bytes": 8, "is_remote": False}
