"""``/api/pods``, ``/healthz`` and ``/readyz``."""

import shutil
from pathlib import Path

from falcon.testing import TestClient
from peewee import Database

from mlbench_master.app import create_app
from mlbench_master.database.connection import store
from mlbench_master.database.models import Pod, Rank, open_database
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import Settings
from tests.conftest import PrometheusServer, free_port
from tests.support.rows import make_ranks, make_run, make_worker

LABELS = {"app": "mlbench", "component": "worker", "release": "local"}


def test_pods_have_the_fields_of_the_original(api: TestClient) -> None:
    assert api.simulate_get("/api/pods/").json == []
    for number in (1, 0):
        Pod.create(name=f"w-{number}", phase="Running", ip="127.0.0.1", node="n", labels=LABELS)
    run = make_run()
    make_ranks(run, ["w-1"])
    Rank.update(assignment={"cpus": [0, 2]}).execute()
    pod = {
        **{"phase": "Running", "ip": "127.0.0.1", "node": "n", "labels": str(LABELS)},
        **{"state": None, "fork_server": False, "seen_at": None},
    }
    assert api.simulate_get("/api/pods").json == [
        pod | {"name": "w-0", "run_id": None, "rank": None, "cpus": []},
        pod | {"name": "w-1", "run_id": run.id, "rank": 0, "cpus": [0, 2]},
    ]


def test_a_pod_shows_only_ranks_of_the_current_attempt(api: TestClient) -> None:
    Pod.create(name="w-0", phase="Running", ip="", node="", labels={})
    make_ranks(make_run(state="FINISHED"), ["w-0"])
    run = make_run()
    make_ranks(run, ["w-0"])
    store(run, attempt=2)
    [pod] = api.simulate_get("/api/pods").json
    assert (pod["run_id"], pod["rank"]) == (None, None)


def test_pods_show_the_last_report_of_their_agent(api: TestClient) -> None:
    for name, uid in (("w-0", ""), ("w-1", "now"), ("w-2", "now")):
        Pod.create(name=name, uid=uid, phase="Running", ip="", node="", labels={})
    make_worker("w-0", state="running", fork_server=True, seen_at=0.5)
    make_worker("w-1", state="exited", seen_at=1, pod_uid="now")
    # Reported by the previous pod of this name.
    make_worker("w-2", pod_uid="before")
    make_worker("w-3")
    pods = api.simulate_get("/api/pods").json
    assert [(pod["name"], pod["state"], pod["seen_at"]) for pod in pods] == [
        ("w-0", "running", "1970-01-01T00:00:00.500000Z"),
        ("w-1", "exited", "1970-01-01T00:00:01.000000Z"),
        ("w-2", None, None),
    ]


def test_alive_but_not_ready_without_prometheus(settings: Settings, database: Database) -> None:
    absent = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    api = TestClient(create_app(settings, absent))
    assert api.simulate_get("/healthz").status_code == 200
    answer = api.simulate_get("/readyz")
    assert answer.status_code == 503
    assert answer.json == {"status": 503, "message": "Prometheus is not ready"}
    absent.close()


def test_not_ready_without_its_database(
    settings: Settings, shared_prometheus: PrometheusServer, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    open_database(f"sqlite:///{folder / 'mlbench.db'}").close()
    shutil.rmtree(folder)
    prometheus = PrometheusClient(shared_prometheus.url)
    api = TestClient(create_app(settings, prometheus))
    for path in ("/readyz", "/metrics"):
        answer = api.simulate_get(path)
        assert answer.status_code == 503
        assert "database" in answer.json["message"]
    prometheus.close()
