"""Requests are counted by route, whatever path or method was asked for."""

import pytest
from falcon.testing import TestClient

from tests.master.telemetry.scraping import scrape


def test_requests_are_counted_by_route_and_status(api: TestClient) -> None:
    for run_id in (1, 2):
        api.simulate_get(f"/api/runs/{run_id}")
    api.simulate_get("/api/runs", headers={"Authorization": ""})
    for path in ("/nothing", "/nowhere"):
        api.simulate_get(path)
    counted = {
        (ls["method"], ls["route"], ls["status"]): v
        for ls, v in scrape(api)["mlbench_http_requests_total"]
    }
    assert counted == {
        ("GET", "/api/runs/{run_id:int}", "404"): 2,
        ("GET", "/api/runs", "401"): 1,
        ("GET", "none", "404"): 2,
    }
    timed = {(ls["route"]): v for ls, v in scrape(api)["mlbench_http_request_seconds_count"]}
    assert timed["/api/runs/{run_id:int}"] == 2


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_strange_methods_make_no_series_of_their_own(api: TestClient) -> None:
    for method in ("BREW", "X" * 20, "get"):
        assert api.simulate_request(method, "/api/runs").status_code in {400, 405}
    methods = {ls["method"] for ls, _ in scrape(api)["mlbench_http_requests_total"]}
    assert methods == {"other"}
