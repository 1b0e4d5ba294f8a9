"""Signing in and out: the cookie gives the access of the token, and other sites cannot get one."""

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from falcon.testing import Result, TestClient

from mlbench_master.app import create_app
from mlbench_master.http.access import make_session
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import Settings
from mlbench_master.web.pages import local_path
from tests.conftest import AGENT_TOKEN, USER_TOKEN
from tests.master.routes import AGENT_ROUTES, USER_ROUTES, fill
from tests.master.web.conftest import COOKIE, ORIGIN


def send(
    browser: TestClient, token: str, then: str = "/", headers: Mapping[str, str] | None = None
) -> Result:
    """Submit the sign-in form like a browser."""
    return browser.simulate_post(
        "/signin",
        body=urlencode({"token": token, "next": then}),
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": ORIGIN,
            **(headers or {}),
        },
    )


def is_signed_in(browser: TestClient, answer: Result) -> bool:
    session = answer.cookies[COOKIE].value
    return browser.simulate_get("/api/runs", cookies={COOKIE: session}).status_code == 200


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/?token={}", "/"),
        ("/runs?token={}&state=FAILED", "/runs?state=FAILED"),
        ("/runs/3?token={}", "/runs/3"),
        ("/compare?runs=1,2&token={}&target=a%3E%3D1//x", "/compare?runs=1,2&target=a%3E%3D1//x"),
        ("/runs/?to%6ben={}", "/runs"),
        ("/signin?token={}", "/"),
        ("/signin?token={}&next=/runs/3", "/runs/3"),
        ("/signin?token={}&next=//evil.example", "/"),
    ],
)
def test_a_url_token_signs_in_and_is_removed(browser: TestClient, before: str, after: str) -> None:
    answer = browser.simulate_get(before.format(USER_TOKEN))
    assert (answer.status_code, answer.headers["Location"]) == (303, after)
    assert answer.headers["Cache-Control"] == "no-store"
    assert is_signed_in(browser, answer)


@pytest.mark.parametrize("wrong", ["", "x", AGENT_TOKEN, "%ff", USER_TOKEN + "x"])
@pytest.mark.parametrize("path", ["/runs/3?a=1&token=", "/signin?next=/runs/3?a=1&token="])
def test_a_wrong_url_token_leads_to_the_form(browser: TestClient, path: str, wrong: str) -> None:
    answer = browser.simulate_get(path + wrong)
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    assert "That is not a token of a user of this master." in answer.text
    assert 'name="next" value="/runs/3?a=1"' in answer.text


def test_the_form_signs_in_and_redirects(browser: TestClient) -> None:
    answer = send(browser, f" {USER_TOKEN}\n", "/compare?runs=1,2#curves")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/compare?runs=1,2#curves")
    assert is_signed_in(browser, answer)
    assert send(browser, USER_TOKEN, "//evil.example").headers["Location"] == "/"


def test_a_wrong_token_is_reported_at_the_field(browser: TestClient) -> None:
    answer = send(browser, "<b>", '/runs?a="><script>')
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="mlbench"'
    [described_by] = re.findall(r'aria-describedby="(\S+)', answer.text)
    problem = r"That is not a token of a user of this master\."
    assert re.search(rf'id="{described_by}"[^>]*role="alert">{problem}<', answer.text)
    assert 'aria-invalid="true"' in answer.text
    assert "<script>" not in answer.text
    assert "<b>" not in answer.text
    form = browser.simulate_get("/signin", params={"next": "/runs/3"}).text
    assert "aria-invalid" not in form
    assert "alert" not in form


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/runs/3?x=1&y=%20#z", "/runs/3?x=1&y=%20#z"),
        ("/runs?query=ü b", "/runs?query=%C3%BC%20b"),
        ("", "/"),
        ("runs", "/"),
        ("//evil.example", "/"),
        ("/a//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_redirects_stay_on_this_master(text: str, path: str) -> None:
    assert local_path(text) == path


def test_another_site_cannot_sign_in_or_out(browser: TestClient) -> None:
    for headers, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ):
        signed_out = browser.simulate_post("/signout", headers=headers)
        for answer in (send(browser, USER_TOKEN, headers=headers), signed_out):
            assert answer.status_code == status
            assert "Set-Cookie" not in answer.headers


def attributes(answer: Result) -> tuple[str, set[str]]:
    """Return the name of the response's cookie, and its attributes in lowercase."""
    pair, *others = (part.strip() for part in answer.headers["Set-Cookie"].split(";"))
    return pair.partition("=")[0], {other.lower() for other in others}


def test_the_cookie_is_per_port_and_http_only(browser: TestClient) -> None:
    headers = {"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000"}
    answer = send(browser, USER_TOKEN, headers=headers)
    name, found = attributes(answer)
    assert name == "mlbench-session-8000"
    assert {"httponly", "samesite=strict", "path=/", "max-age=2592000"} <= found
    assert "secure" not in found
    assert USER_TOKEN not in answer.headers["Set-Cookie"]


def test_over_https_the_cookie_is_secure(
    settings: Settings, browser: TestClient, prometheus: PrometheusClient
) -> None:
    here = browser.simulate_get(f"/?token={USER_TOKEN}", protocol="https")
    assert attributes(here)[0] == "mlbench-session-443"
    assert "secure" in attributes(here)[1]
    behind_a_proxy = replace(settings, url="https://mlbench.example.com")
    there = TestClient(create_app(behind_a_proxy, prometheus))
    assert "secure" in attributes(there.simulate_get(f"/?token={USER_TOKEN}"))[1]


def test_a_session_gives_the_access_of_a_user_token(signed_in: TestClient) -> None:
    for method, template in USER_ROUTES:
        answer = signed_in.simulate_request(method, fill(template))
        assert answer.status_code not in {401, 403}, template
    for method, template in AGENT_ROUTES:
        assert signed_in.simulate_request(method, fill(template)).status_code == 403
    other_port = {"Cookie": f"{COOKIE}80={make_session(USER_TOKEN, time.time())}"}
    assert signed_in.simulate_get("/api/runs", headers=other_port).status_code == 401
    for origin in ("http://evil.example", f"{ORIGIN}:8080"):
        answer = signed_in.simulate_get("/api/runs", headers={"Origin": origin})
        assert answer.status_code == 403


def test_a_refused_script_gets_no_basic_challenge(browser: TestClient) -> None:
    for mode, asks_by_dialog in ((None, True), ("navigate", True), ("cors", False)):
        headers = {"Sec-Fetch-Mode": mode} if mode else {}
        answer = browser.simulate_get("/api/runs", headers=headers)
        assert (answer.status_code, answer.json["status"]) == (401, 401)
        assert ("Basic" in answer.headers["WWW-Authenticate"]) == asks_by_dialog


def test_signing_out_deletes_the_cookie(signed_in: TestClient) -> None:
    answer = signed_in.simulate_post("/signout", headers={"Origin": ORIGIN})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/signin")
    name, found = attributes(answer)
    assert (name, answer.cookies[COOKIE].value) == (COOKIE, "")
    assert {"httponly", "samesite=strict", "path=/", "max-age=-1"} <= found
