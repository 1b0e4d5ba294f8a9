"""Permissions of roles, ownership of runs, and sign-in by a proxy."""

import time
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_network
from typing import get_args

import pytest
from falcon.testing import TestClient

from mlbench.contract import join_token
from mlbench.contract.people import USER_HEADER, Role
from mlbench_master.app import create_app
from mlbench_master.database.models import Run
from mlbench_master.http.proxies import Proxies
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.runs import join_tokens
from mlbench_master.settings import Settings
from scripts import roles_reference
from tests.conftest import USER_TOKEN
from tests.master.routes import fill
from tests.support.rows import make_run

_ORDER = {"name": "mine", "benchmark": "digits", "queue": True}


def _header(name: str, role: Role) -> Mapping[str, str]:
    token = join_tokens.create(join_tokens.TokenRequest(name, role), USER_TOKEN)
    return {"Authorization": f"Bearer {token.token}"}


def test_the_documented_table_is_up_to_date() -> None:
    assert roles_reference.page() == roles_reference._PAGE.read_text(), (
        "run .venv/bin/python -m scripts.roles_reference"
    )


@pytest.mark.parametrize("role", get_args(Role))
def test_a_role_may_send_the_documented_requests(api: TestClient, role: Role) -> None:
    headers = _header("ada", role)
    for method, path, roles in roles_reference.rows():
        response = api.simulate_request(method, fill(path), headers=headers)
        is_refused = "requires the role" in response.text
        assert is_refused == (role not in roles), (method, path)
        assert is_refused <= (response.status_code == 403)


def test_20_users_see_200_runs_and_change_only_their_own(api: TestClient) -> None:
    users = {f"user-{number}": _header(f"user-{number}", "run") for number in range(20)}
    for name, headers in users.items():
        assert api.simulate_post("/api/runs", json=_ORDER, headers=headers).json["user"] == name
        for _ in range(9):
            make_run(user=name)
    for name in ("user-3", "user-4"):
        headers = users[name]
        assert len(api.simulate_get("/api/runs", headers=headers).json) == 200
        mine = api.simulate_get("/api/runs", params={"query": f"user={name}"}, headers=headers)
        assert [run["user"] for run in mine.json] == [name] * 10
    own, other = users["user-3"], users["user-4"]
    [first, second, *_] = Run.select().where(Run.user == "user-3").order_by(Run.id)
    for method, path in (("POST", "/stop"), ("DELETE", ""), ("PATCH", "")):
        refused = api.simulate_request(method, f"/api/runs/{first.id}{path}", headers=other)
        assert refused.status_code == 403
        assert "belongs to the user user-3 (got user-4)" in refused.json["message"]
    assert api.simulate_post(f"/api/runs/{first.id}/stop", headers=own).status_code == 200
    admin = _header("root", "admin")
    stopped = api.simulate_post(f"/api/runs/{second.id}/stop", headers=admin).json
    assert stopped["stopped_by"] == "root"


def test_a_deleted_run_names_the_user_who_deleted_it(api: TestClient) -> None:
    run = make_run(user="ada", state="FINISHED")
    deleted = api.simulate_delete(f"/api/runs/{run.id}", headers=_header("eve", "admin"))
    assert deleted.status_code == 204
    response = api.simulate_get(f"/api/runs/{run.id}")
    assert response.status_code == 404
    assert response.json["message"] == f"run_id: run {run.id} was deleted by eve"


def test_a_revoked_token_ends_its_session(api: TestClient) -> None:
    token = join_tokens.create(join_tokens.TokenRequest("ada", "read"), USER_TOKEN)
    signed_in = api.simulate_get("/signin", params={"token": str(token.token)})
    cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
    headers = {"Authorization": "", "Cookie": cookie}
    info = api.simulate_get("/api/info", headers=headers).json
    assert (info["user"], info["role"]) == ("ada", "read")
    assert api.simulate_post("/api/runs", json=_ORDER, headers=headers).status_code == 403
    join_tokens.revoke(token.id)
    assert api.simulate_get("/api/info", headers=headers).status_code == 401


def test_a_joining_token_does_not_sign_in(api: TestClient) -> None:
    token = join_token.make(USER_TOKEN, int(time.time()) + 60, "ab12")
    assert api.simulate_get("/signin", params={"token": token}).status_code == 401


def test_the_token_of_the_stack_accepts_the_user_header(api: TestClient) -> None:
    run = api.simulate_post("/api/runs", json=_ORDER, headers={USER_HEADER: "Zo%C3%AB%0A"}).json
    assert run["user"] == "Zoë"
    named = {**_header("ada", "run"), USER_HEADER: "eve"}
    assert api.simulate_post("/api/runs", json=_ORDER, headers=named).json["user"] == "ada"


@pytest.mark.parametrize(
    ("address", "headers", "user"),
    [
        # oauth2-proxy with --pass-user-headers sends an opaque identifier as the user.
        ("10.0.0.7", {"X-Forwarded-User": "4711", "X-Forwarded-Preferred-Username": "ada"}, "ada"),
        ("10.0.0.7", {"X-Forwarded-User": "ada@example.org"}, "ada@example.org"),
        ("10.0.0.7", {"X-Forwarded-User": ""}, None),
        ("10.0.0.8", {"X-Forwarded-User": "ada"}, None),
        ("127.0.0.1", {"X-Forwarded-User": "ada"}, None),
    ],
)
def test_a_sign_in_proxy_authenticates_users(
    settings: Settings,
    prometheus: PrometheusClient,
    database: object,
    address: str,
    headers: Mapping[str, str],
    user: str | None,
) -> None:
    # The proxy trusted for host and scheme must not sign users in.
    proxies = Proxies(trusted=(ip_network("10.0.0.8"),), sign_in=(ip_network("10.0.0.7"),))
    client = TestClient(create_app(replace(settings, proxies=proxies), prometheus))
    extras = {"REMOTE_ADDR": address}
    info = client.simulate_get("/api/info", headers=headers, extras=extras)
    assert info.status_code == (401 if user is None else 200)
    if user is not None:
        assert (info.json["user"], info.json["role"]) == (user, "run")
        assert client.simulate_get("/api/tokens", headers=headers, extras=extras).status_code == 403
