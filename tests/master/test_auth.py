"""Who may do what: users with their token, agents with theirs, probes without."""

import base64

import pytest
from falcon.testing import TestClient

from tests.conftest import AGENT_SECRET, AGENT_TOKEN, USER_TOKEN
from tests.master.routes import (
    AGENT_ROUTES,
    ALL_ROUTES,
    OPEN_ROUTES,
    USER_ROUTES,
    WEB_ROUTES,
    fill,
    routes_of,
)


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_every_route_is_among_these(api: TestClient) -> None:
    assert routes_of(api) == {*ALL_ROUTES, *WEB_ROUTES}


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {USER_TOKEN}x",
        f"Bearer {USER_TOKEN[:-1]}",
        f"Bearer {AGENT_SECRET}",
        f"Bearer {AGENT_TOKEN[:-1]}",
        f"Bearer w-1{AGENT_TOKEN.removeprefix('w-0')}",
        f"Bearer {AGENT_TOKEN.replace('//', '/uid/')}",
        "Bearer \xfc",
        USER_TOKEN,
        f"Digest {USER_TOKEN}",
        "Basic",
        "Basic ***",
        "Basic \xfc",
        "Basic /w==",
        basic(USER_TOKEN),
        basic(f"{USER_TOKEN}:"),
        basic("user:wrong"),
    ],
)
def test_without_the_token_nothing_is_done(api: TestClient, shown: str) -> None:
    for method, template in USER_ROUTES + AGENT_ROUTES:
        answer = api.simulate_request(method, fill(template), headers={"Authorization": shown})
        assert answer.status_code == 401
        assert answer.json["status"] == 401
        assert "Bearer TOKEN" in answer.json["message"]
        assert "Bearer" in answer.headers["WWW-Authenticate"]
        assert "Basic" in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("shown", [f"Bearer {AGENT_TOKEN}", basic(f"agent:{AGENT_TOKEN}")])
def test_agents_may_not_do_what_users_do(api: TestClient, shown: str) -> None:
    for method, template in USER_ROUTES:
        answer = api.simulate_request(method, fill(template), headers={"Authorization": shown})
        assert answer.status_code == 403
        assert answer.json == {"status": 403, "message": "this route is for users"}


def test_users_may_not_do_what_agents_do(api: TestClient) -> None:
    for method, template in AGENT_ROUTES:
        answer = api.simulate_request(method, fill(template))
        assert answer.status_code == 403
        assert answer.json == {"status": 403, "message": "this route is for agents"}


@pytest.mark.parametrize(
    "shown",
    [
        f"Bearer {USER_TOKEN}",
        f"bearer {USER_TOKEN}",
        f"Bearer  {USER_TOKEN} ",
        basic(f"user:{USER_TOKEN}"),
        basic(f":{USER_TOKEN}"),
        basic(f"any ü:{USER_TOKEN}"),
    ],
)
def test_the_token_opens_as_bearer_and_as_basic_password(api: TestClient, shown: str) -> None:
    answer = api.simulate_get("/api/runs", headers={"Authorization": shown})
    assert answer.status_code == 200


def test_probes_need_no_token(api: TestClient) -> None:
    for method, template in OPEN_ROUTES:
        answer = api.simulate_request(method, template, headers={"Authorization": ""})
        assert answer.status_code == 200


def test_no_answer_shows_a_token(api: TestClient) -> None:
    for method, template in ALL_ROUTES:
        text = api.simulate_request(method, fill(template)).text
        assert USER_TOKEN not in text
        assert AGENT_TOKEN not in text
        assert AGENT_SECRET not in text
