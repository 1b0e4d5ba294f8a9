"""Paths and forwarded headers behind a reverse proxy."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
from falcon.testing import TestClient

from mlbench_master.app import create_app
from mlbench_master.http.proxies import Proxies
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import Settings, SettingsError
from tests.conftest import call_as_user

_TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::1"))


@pytest.fixture
def client(settings: Settings, prometheus: PrometheusClient, database: object) -> TestClient:
    proxies = Proxies("/mlbench", _TRUSTED)
    return call_as_user(replace(settings, proxies=proxies), prometheus)


@pytest.mark.parametrize(
    "path", ["/mlbench/api/runs/", "/api/runs/", "/mlbench/healthz", "/mlbench"]
)
def test_a_proxy_may_keep_or_remove_the_root_path(client: TestClient, path: str) -> None:
    assert client.simulate_get(path).status_code == 200


def test_the_root_path_matches_whole_segments(client: TestClient) -> None:
    assert client.simulate_get("/mlbenchapi/runs/").status_code == 404


@pytest.mark.parametrize(
    ("address", "status"),
    [
        *(("10.1.2.3", 421), ("fd00::1", 421), ("11.1.2.3", 200), ("::1", 200)),
        # IPv4-mapped addresses, if the master listens on "::".
        *(("::ffff:10.1.2.3", 421), ("::ffff:11.1.2.3", 200)),
    ],
)
def test_only_trusted_proxies_forward_hosts(client: TestClient, address: str, status: int) -> None:
    headers = {"X-Forwarded-Host": "evil.example.org, localhost"}
    environ = {"REMOTE_ADDR": address}
    response = client.simulate_get("/api/runs/", headers=headers, extras=environ)
    assert response.status_code == status


@pytest.mark.parametrize(("address", "secure"), [("10.1.2.3", True), ("127.0.0.1", False)])
def test_only_trusted_proxies_may_forward_the_scheme(
    client: TestClient, settings: Settings, address: str, secure: bool
) -> None:
    response = client.simulate_get(
        "/signin",
        params={"token": settings.token, "next": "/mlbench/runs"},
        headers={"X-Forwarded-Proto": "https"},
        extras={"REMOTE_ADDR": address},
    )
    assert response.headers["Location"] == "/mlbench/runs"
    cookie = response.headers["Set-Cookie"]
    assert ("Secure" in cookie) == secure
    assert "Path=/mlbench;" in cookie


def test_a_root_path_like_a_route_fails(settings: Settings, prometheus: PrometheusClient) -> None:
    with pytest.raises(SettingsError, match=r"MLBENCH_ROOT_PATH.*got '/runs/of-ada'"):
        create_app(replace(settings, proxies=Proxies("/runs/of-ada")), prometheus)
