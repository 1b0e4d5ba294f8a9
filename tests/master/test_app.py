"""Behaviour of all routes: slashes, HEAD, unknown routes and runs, body sizes, media types."""

import pytest
from falcon.testing import TestClient

from mlbench_master.database.models import Run
from tests.conftest import AGENT_TOKEN
from tests.master.routes import AGENT_ROUTES, ALL_ROUTES, WEB_ROUTES, fill
from tests.support.rows import make_ranks

AGENT = {"Authorization": f"Bearer {AGENT_TOKEN}"}


def test_a_trailing_slash_makes_no_difference(api: TestClient, run: Run) -> None:
    make_ranks(run)
    for method, template in ALL_ROUTES:
        path = fill(template, {"owner": "nobody"})
        headers = AGENT if (method, template) in AGENT_ROUTES else None
        without = api.simulate_request(method, path, headers=headers)
        with_slash = api.simulate_request(method, f"{path}/", headers=headers)
        assert without.status_code == with_slash.status_code != 405
        assert template == "/metrics" or without.text == with_slash.text


def test_head_is_get_without_the_body(api: TestClient, run: Run) -> None:
    make_ranks(run)
    for method, template in [*ALL_ROUTES, *WEB_ROUTES]:
        if method == "GET":
            path = fill(template, {"owner": "nobody"})
            got, head = api.simulate_get(path), api.simulate_head(path)
            assert head.content == b""
            assert head.status_code == got.status_code
            if template != "/metrics":  # its length changes
                assert head.headers == got.headers
    assert api.simulate_put("/api/runs").headers["Allow"] == "GET, POST, OPTIONS, HEAD"
    assert "HEAD" not in api.simulate_get("/api/archives").headers["Allow"]


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nothing", "/api/runs/one", "/api/runs/1/2", "/favicon.ico"]
)
def test_unknown_routes_are_not_found(api: TestClient, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = api.simulate_request(method, path)
        assert (answer.status_code, answer.json["status"]) == (404, 404)
        assert answer.json["message"]


@pytest.mark.parametrize("run_id", ["0", "-1", "999", str(2**63), "9" * 30])
def test_unknown_runs_are_not_found(api: TestClient, run_id: str) -> None:
    unknown = {"status": 404, "message": f"run_id: run {run_id} not found"}
    routes = [(method, path) for method, path in ALL_ROUTES if "{run_id" in path]
    for method, template in routes:
        if (method, template) not in AGENT_ROUTES:
            answer = api.simulate_request(method, fill(template, {"run_id": run_id}))
            assert answer.json == unknown, template


@pytest.mark.parametrize(("path", "most"), [("/api/runs", 1 << 20), ("/api/metrics", 16 << 20)])
def test_a_too_large_body_is_refused(api: TestClient, path: str, most: int) -> None:
    answer = api.simulate_post(path, body=b" " * (most + 1))
    message = f"body: must be at most {most / (1 << 20):.4g} MiB"
    assert answer.status_code == 413
    assert answer.json == {"status": 413, "message": message}
    assert api.simulate_post(path, body=b" " * most).status_code == 400


@pytest.mark.parametrize(
    "body", [b"no JSON", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b'{"name": "\\ud800"}']
)
def test_a_body_must_be_a_json_object(api: TestClient, body: bytes) -> None:
    for path, headers in (("/api/runs", None), ("/api/workers/w-0/poll", AGENT)):
        answer = api.simulate_post(path, body=body, headers=headers)
        assert answer.status_code == 400
        assert answer.json["message"].startswith("body: ")


@pytest.mark.parametrize("path", ["/api/runs", "/api/runs/404", "/nowhere"])
def test_json_gets_the_requested_media_type(api: TestClient, path: str) -> None:
    for accept, expected in [
        ("application/json, text/javascript", "text/javascript"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
    ]:
        answer = api.simulate_get(path, headers={"Accept": accept})
        assert answer.headers["Content-Type"] == expected
        assert answer.headers["Vary"] == "Accept"
        assert answer.json is not None
