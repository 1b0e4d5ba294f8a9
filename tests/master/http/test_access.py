"""Access control: tokens, sessions, hosts and origins."""

import base64
import time
from dataclasses import replace

from falcon.testing import TestClient

from mlbench.contract import join_token
from mlbench_master.app import create_app
from mlbench_master.http.access import SESSION_SECONDS, is_session, make_session
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import LOOPBACK_HOSTS, Settings
from tests.conftest import AGENT_SECRET, AGENT_TOKEN, USER_TOKEN
from tests.master.routes import (
    AGENT_ROUTES,
    ALL_ROUTES,
    JOIN_ROUTES,
    OPEN_ROUTES,
    USER_ROUTES,
    WEB_ROUTES,
    fill,
    routes_of,
)

HERE = "127.0.0.1:8000"
NOW = 1_800_000_000.5
DAY = 24 * 3600
ALLOWED = LOOPBACK_HOSTS | {"mlbench.example.com", "r-mlbench-master"}
PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via")


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_the_lists_of_routes_are_complete(api: TestClient) -> None:
    assert routes_of(api) == {*ALL_ROUTES, *WEB_ROUTES}


# --- Tokens ---

_WRONG = [
    *("", "Bearer", "Bearer ", "Bearer wrong", "Bearer \xfc", "Basic", "Basic ***", "Basic \xfc"),
    *(f"Bearer {USER_TOKEN}x", f"Bearer {USER_TOKEN[:-1]}", USER_TOKEN, f"Digest {USER_TOKEN}"),
    *(f"Bearer {AGENT_SECRET}", f"Bearer {AGENT_TOKEN[:-1]}"),
    f"Bearer w-1{AGENT_TOKEN.removeprefix('w-0')}",
    f"Bearer {AGENT_TOKEN.replace('//', '/uid/')}",
    *("Basic /w==", basic(USER_TOKEN), basic(f"{USER_TOKEN}:"), basic("user:wrong")),
]


def test_requests_without_a_valid_token_are_refused(api: TestClient) -> None:
    tries = [(route, "") for route in USER_ROUTES + AGENT_ROUTES + JOIN_ROUTES]
    tries += [(route, shown) for route in (USER_ROUTES[0], AGENT_ROUTES[0]) for shown in _WRONG]
    for (method, template), shown in tries:
        answer = api.simulate_request(method, fill(template), headers={"Authorization": shown})
        assert answer.status_code == 401, shown
        assert answer.json["status"] == 401
        assert "Bearer TOKEN" in answer.json["message"]
        assert "Bearer" in answer.headers["WWW-Authenticate"]
        assert "Basic" in answer.headers["WWW-Authenticate"]


def test_tokens_of_another_kind_are_refused(api: TestClient) -> None:
    joining = join_token.make(USER_TOKEN, int(time.time()) + 60, "me")
    for whom, routes, tokens in (
        ("users", USER_ROUTES, (AGENT_TOKEN, joining)),
        ("agents", AGENT_ROUTES, (USER_TOKEN, joining)),
    ):
        for method, template in routes:
            for token in tokens:
                for shown in (f"Bearer {token}", basic(f"me:{token}")):
                    headers = {"Authorization": shown}
                    answer = api.simulate_request(method, fill(template), headers=headers)
                    assert answer.status_code == 403
                    message = answer.json["message"]
                    refusals = (f"this route is for {whom}", "this route requires the role")
                    assert message.startswith(tuple(f"Authorization: {text}" for text in refusals))


def test_the_token_is_accepted_as_bearer_and_as_basic_password(api: TestClient) -> None:
    passwords = [basic(f"{user}:{USER_TOKEN}") for user in ("user", "", "any ü")]
    bearers = [f"Bearer {USER_TOKEN}", f"bearer {USER_TOKEN}", f"Bearer  {USER_TOKEN} "]
    for shown in bearers + passwords:
        answer = api.simulate_get("/api/runs", headers={"Authorization": shown})
        assert answer.status_code == 200, shown


def test_probes_need_no_token(api: TestClient) -> None:
    for method, template in OPEN_ROUTES:
        answer = api.simulate_request(method, template, headers={"Authorization": ""})
        assert answer.status_code == 200


def test_a_joining_token_is_valid_until_it_expires(api: TestClient) -> None:
    now = int(time.time())
    good, old = (join_token.make(USER_TOKEN, now + s, "me") for s in (60, -60))
    other = join_token.make("another", now + 60, "me")
    for token, status, message in (
        (USER_TOKEN, 400, "key: required field is missing"),
        (good, 400, "key: required field is missing"),
        (AGENT_TOKEN, 403, "this route is for recorders"),
        (old, 401, "the token has expired"),
        (other, 401, "the token belongs to another master"),
        (f"{good}0", 401, "the token belongs to another master"),
    ):
        headers = {"Authorization": f"Bearer {token}"}
        answer = api.simulate_post("/api/join", json={}, headers=headers)
        assert answer.status_code == status, token
        assert message in answer.json["message"]


def test_no_response_contains_a_token(api: TestClient) -> None:
    for method, template in ALL_ROUTES:
        text = api.simulate_request(method, fill(template)).text
        for secret in (USER_TOKEN, AGENT_TOKEN, AGENT_SECRET):
            assert secret not in text


# --- Sessions ---


def test_a_session_is_valid_for_thirty_days() -> None:
    session = make_session("token", NOW)
    assert "token" not in session
    assert SESSION_SECONDS == 30 * DAY
    assert is_session(session, "token", NOW)
    assert is_session(session, "token", NOW + 30 * DAY - 1)
    assert not is_session(session, "token", NOW + 30 * DAY)
    assert not is_session(session, "another", NOW)


def test_malformed_sessions_are_refused() -> None:
    expiry, _, signature = make_session("token", NOW).partition(".")
    longer, cut = f"{int(expiry) + 1}.{signature}", f"{expiry}.{signature[:-1]}"
    odd = ["", ".", "x", "9999999999", "9999999999.", "-1.x", "٣.x", "1e9.x", "9" * 5_000, "é.é"]
    for text in [*odd, longer, cut, f"{expiry}.{signature}0"]:
        assert not is_session(text, "token", NOW)


def test_metrics_need_a_token_via_proxy_or_public_name(settings: Settings, api: TestClient) -> None:
    public = replace(settings, url="https://mlbench.example.com", allowed_hosts=ALLOWED)
    client = TestClient(create_app(public, PrometheusClient("http://127.0.0.1:9")))
    for headers, status in (
        ({"Host": "10.1.2.3:8000"}, 200),
        ({"Host": "r-mlbench-master:80"}, 200),
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "mlbench.example.com"}, 401),
        ({"Host": "MLBench.example.com:443"}, 401),
        *(({"Host": "10.1.2.3", name: "192.0.2.7"}, 401) for name in PROXY_HEADERS),
    ):
        answer = client.simulate_get("/metrics", headers=headers)
        assert answer.status_code == status, headers
        with_token = headers | {"Authorization": f"Bearer {USER_TOKEN}"}
        assert client.simulate_get("/metrics", headers=with_token).status_code == 200, headers
    assert api.simulate_get("/metrics", headers={"Host": HERE}).status_code == 200


# --- Hosts and origins ---


def test_local_host_names_and_addresses_are_accepted(api: TestClient) -> None:
    for host in ("localhost", "LOCALHOST:80", HERE, "[::1]:8000", "10.0.0.1:8000", "[fd00::1]"):
        assert api.simulate_get("/api/runs", headers={"Host": host}).status_code == 200, host


def test_foreign_hosts_may_use_only_the_open_routes(api: TestClient) -> None:
    for_everyone = [route for route in OPEN_ROUTES if route != ("GET", "/metrics")]
    for method, template in ALL_ROUTES:
        answer = api.simulate_request(method, fill(template), headers={"Host": "example.com"})
        refused = answer.status_code == 421
        assert refused == ((method, template) not in for_everyone), template
        if refused:
            assert "127.0.0.1" in answer.json["message"]
            assert "'example.com'" in answer.json["message"]


def test_requests_from_other_origins_are_refused(api: TestClient) -> None:
    ours = {"Host": HERE, "Origin": f"http://{HERE}"}
    assert api.simulate_get("/api/runs", headers=ours).status_code == 200
    elsewhere = ("http://example.com", "http://127.0.0.1:9999", "null", "http://127.0.0.1", "")
    for origin in elsewhere:
        for method, template in ALL_ROUTES:
            headers = {"Host": HERE, "Origin": origin}
            answer = api.simulate_request(method, fill(template), headers=headers)
            assert answer.status_code == 403, template
            assert answer.json["message"].startswith("Origin: ")
