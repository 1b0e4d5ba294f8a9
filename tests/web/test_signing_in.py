"""Signing in: by the URL with the token, or by entering it; and how a session ends."""

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from master.access import make_session
from mlbench.home import Connection
from tests.conftest import PrometheusServer, free_port
from tests.web.conftest import sign_in
from tests.web.serving import serve_master
from tests.web.watch import Watch

_REFUSED = "status of 401"


def _enter(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def _heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


def test_the_url_with_the_token_signs_in(
    page: Page, context: BrowserContext, connection: Connection
) -> None:
    page.goto("about:blank")
    sign_in(page, connection, "/runs?state=FINISHED")
    _heading(page, "Runs")
    # The token is nowhere to be read by who comes to this screen later.
    assert page.url == f"{connection.url}/runs?state=FINISHED"
    assert page.evaluate("history.length") == 2
    assert connection.token not in page.content()
    [cookie] = context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert not cookie["secure"]
    assert connection.token not in cookie["value"]
    assert cookie["expires"] == pytest.approx(time.time() + 30 * 86400, abs=3600)
    assert page.evaluate("document.cookie") == ""

    # The other pages need no token then.
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("article", name="local-mlbench-worker-0")).to_be_visible()


def test_a_page_leads_to_signing_in_and_back(
    page: Page, connection: Connection, watch: Watch
) -> None:
    watch.expect(_REFUSED)
    page.goto(f"{connection.url}/runs?search=digits&state=FAILED")
    expect(page.get_by_label("Token")).to_be_focused()
    _enter(page, "wrong")
    expect(page.get_by_label("Token")).to_have_accessible_description(
        re.compile("^That is not the token of this master[.]")
    )
    expect(page.get_by_label("Token")).to_have_value("")
    _enter(page, connection.token)
    page.wait_for_url(f"{connection.url}/runs?search=digits&state=FAILED")
    _heading(page, "Runs")


def test_a_wrong_token_in_the_url_is_told(page: Page, connection: Connection, watch: Watch) -> None:
    watch.expect(_REFUSED)
    page.goto(f"{connection.url}/runs?token=wrong")
    expect(page.get_by_text("not the token of this master")).to_be_visible()
    assert "wrong" not in page.content()
    _enter(page, connection.token)
    page.wait_for_url(f"{connection.url}/runs")


@pytest.mark.parametrize(
    "elsewhere", ["http://elsewhere.test/", "//elsewhere.test/", "/\\elsewhere.test/", "runs"]
)
def test_signing_in_leads_nowhere_else(page: Page, connection: Connection, elsewhere: str) -> None:
    page.goto(f"{connection.url}/signin?next={elsewhere}")
    _enter(page, connection.token)
    page.wait_for_url(f"{connection.url}/")
    _heading(page, "Workers")


def test_who_signs_out_is_out(user: Page, connection: Connection, watch: Watch) -> None:
    watch.expect(_REFUSED)
    user.goto(f"{connection.url}/runs")
    user.get_by_role("button", name="Sign out").click()
    expect(user.get_by_label("Token")).to_be_visible()
    assert user.context.cookies() == []
    user.go_back()
    user.wait_for_url("**/signin?next=**")
    expect(user.get_by_label("Token")).to_be_visible()


def test_a_session_ends(
    user: Page, context: BrowserContext, connection: Connection, watch: Watch
) -> None:
    user.goto(f"{connection.url}/runs")
    _heading(user, "Runs")
    watch.expect(_REFUSED)
    [cookie] = context.cookies()
    made = time.time() - 30 * 86400 - 60
    context.add_cookies([{**cookie, "value": make_session(connection.token, made)}])  # type: ignore[typeddict-item]
    user.reload()
    user.wait_for_url(f"{connection.url}/signin?next=%2Fruns")
    _enter(user, connection.token)
    user.wait_for_url(f"{connection.url}/runs")
    _heading(user, "Runs")


def test_a_new_token_ends_all_sessions_under_an_open_page(
    page: Page, tmp_path: Path, shared_prometheus: PrometheusServer, watch: Watch
) -> None:
    port = free_port()
    with serve_master(tmp_path, port, shared_prometheus.url) as connection:
        sign_in(page, connection, "/runs?state=FAILED")
        _heading(page, "Runs")
    watch.expect("ERR_CONNECTION_REFUSED|" + _REFUSED)
    with serve_master(tmp_path, port, shared_prometheus.url, token="another-token") as connection:
        page.wait_for_url(f"{connection.url}/signin?next=**")
        _enter(page, "a-token")
        expect(page.get_by_text("not the token of this master")).to_be_visible()
        _enter(page, connection.token)
        page.wait_for_url(f"{connection.url}/runs?state=FAILED")
