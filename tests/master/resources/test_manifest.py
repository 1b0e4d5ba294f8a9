"""``GET /api/runs/{id}/manifest/``."""

from falcon.testing import TestClient

from master import manifest
from master.models import Run
from tests.master.making import make_ranks


def test_the_manifest_of_a_run(api: TestClient, run: Run) -> None:
    make_ranks(run)
    answer = api.simulate_get(f"/api/runs/{run.id}/manifest/")
    assert answer.status_code == 200
    assert answer.json == manifest.build(run).to_fields()


def test_of_no_run(api: TestClient) -> None:
    answer = api.simulate_get("/api/runs/99/manifest/")
    assert answer.status_code == 404
    assert answer.json["message"] == "run_id: there is no run 99"
