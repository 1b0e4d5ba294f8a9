"""The pages: open to all, without data, and by a URL with the token signed in."""

import re

import pytest
from falcon.testing import TestClient
from falcon.testing.helpers import DEFAULT_HOST

from master.models import Run
from master.web.assets import load
from tests.conftest import AGENT_TOKEN, USER_TOKEN
from tests.master.routes import PAGES, fill
from tests.master.web.conftest import COOKIE

PATHS = [fill(template) for _, template in PAGES]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_open_to_all(browser: TestClient, path: str) -> None:
    answer = browser.simulate_get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "Set-Cookie" not in answer.headers
    assert answer.text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", PATHS)
def test_all_that_a_page_loads_and_leads_to_is_there(browser: TestClient, path: str) -> None:
    page = browser.simulate_get(path).text
    found = set(re.findall(r'\s(?:src|href)="([^"]+)"', page))
    assert f"{load().prefix}/style.css" in found
    for url in found - {"#main"}:
        assert url.startswith("/"), url
        # What the API answers, its own tests say.
        if not url.startswith("/api/"):
            assert browser.simulate_get(url).status_code == 200, url


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_inline(browser: TestClient, path: str) -> None:
    page = browser.simulate_get(path).text
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


def test_a_page_holds_no_data(browser: TestClient, run: Run) -> None:
    for path in ("/", "/runs", f"/runs/{run.id}", "/compare"):
        assert run.name not in browser.simulate_get(path).text


def test_a_run_that_is_not_there_has_a_page_too(browser: TestClient) -> None:
    assert browser.simulate_get("/runs/99999").status_code == 200


# --- A URL with the token. ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/?token={}", "/"),
        ("/runs?token={}&state=FAILED", "/runs?state=FAILED"),
        ("/runs/3?token={}", "/runs/3"),
        ("/compare?runs=1,2&token={}&goal=a%3E%3D1//x", "/compare?runs=1,2&goal=a%3E%3D1//x"),
        ("/runs/?to%6ben={}", "/runs"),
        ("/signin?token={}", "/"),
        ("/signin?token={}&next=/runs/3", "/runs/3"),
    ],
)
def test_the_token_in_a_url_signs_in_and_goes_away(
    browser: TestClient, before: str, after: str
) -> None:
    answer = browser.simulate_get(before.format(USER_TOKEN))
    assert answer.status_code == 303
    assert answer.headers["Location"] == after
    assert answer.headers["Cache-Control"] == "no-store"
    session = answer.cookies[COOKIE].value
    assert browser.simulate_get("/api/runs", cookies={COOKIE: session}).status_code == 200


@pytest.mark.parametrize("wrong", ["", "x", AGENT_TOKEN, "%ff", USER_TOKEN + "x"])
@pytest.mark.parametrize("path", ["/runs/3?a=1&token=", "/signin?next=/runs/3?a=1&token="])
def test_a_wrong_token_in_a_url_is_asked_for_again(
    browser: TestClient, path: str, wrong: str
) -> None:
    answer = browser.simulate_get(path + wrong)
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers
    assert "That is not the token of this master." in answer.text
    assert 'name="next" value="/runs/3?a=1"' in answer.text


def test_a_page_is_for_those_who_call_this_master_by_its_name(browser: TestClient) -> None:
    for method, template in PAGES:
        answer = browser.simulate_request(method, template, headers={"Host": "example.com"})
        assert answer.status_code in {404, 421}, template
    assert DEFAULT_HOST in browser.simulate_get("/", headers={"Host": "example.com"}).text
