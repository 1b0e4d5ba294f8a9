"""Who may call: a foreign Host and the pages of other sites are refused, everywhere."""

import pytest
from falcon.testing import TestClient

from tests.master.routes import ALL_ROUTES, OPEN_ROUTES, fill

HERE = "127.0.0.1:8000"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", HERE, "[::1]:8000", "10.0.0.1:8000", "[fd00::1]"]
)
def test_this_machine_by_name_and_every_address(api: TestClient, host: str) -> None:
    assert api.simulate_get("/api/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1.example.com", "10.0.0.256", "a:b:c", "[", "", "\x00"]
)
def test_a_foreign_host(api: TestClient, host: str) -> None:
    answer = api.simulate_get("/api/runs", headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert answer.json["message"].startswith("Host: ")


def test_a_foreign_host_may_use_the_open_routes_alone(api: TestClient) -> None:
    for_everyone = [route for route in OPEN_ROUTES if route != ("GET", "/metrics")]
    for method, template in ALL_ROUTES:
        answer = api.simulate_request(method, fill(template), headers={"Host": "example.com"})
        refused = answer.status_code == 421
        assert refused == ((method, template) not in for_everyone), template


def test_the_masters_own_pages(api: TestClient) -> None:
    headers = {"Host": HERE, "Origin": f"http://{HERE}"}
    assert api.simulate_get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://example.com", "http://127.0.0.1:9999", "null", "http://127.0.0.1", ""]
)
def test_pages_of_other_sites(api: TestClient, origin: str) -> None:
    for method, template in ALL_ROUTES:
        headers = {"Host": HERE, "Origin": origin}
        answer = api.simulate_request(method, fill(template), headers=headers)
        assert answer.status_code == 403, template
        assert answer.json["message"].startswith("Origin: ")
