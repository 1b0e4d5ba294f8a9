"""The content type of answers, by what the client accepts."""

import pytest
from falcon.testing import TestClient

MLBENCH = "application/json, text/javascript"


@pytest.mark.parametrize("path", ["/api/runs", "/api/pods/", "/api/runs/404", "/nowhere"])
def test_json_by_the_name_that_is_asked_for(api: TestClient, path: str) -> None:
    for accept, expected in [
        (MLBENCH, "text/javascript"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
    ]:
        answer = api.simulate_get(path, headers={"Accept": accept})
        assert answer.headers["Content-Type"] == expected
        assert answer.headers["Vary"] == "Accept"
        assert answer.json is not None


def test_what_is_no_json_keeps_its_name(api: TestClient) -> None:
    answer = api.simulate_get("/metrics", headers={"Accept": MLBENCH})
    assert answer.headers["Content-Type"].startswith("text/plain")
