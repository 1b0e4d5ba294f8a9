"""Signing in by URL or form, the end of a session, and the policy that keeps strangers out."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from mlbench.home import Connection
from tests.conftest import PrometheusServer, free_port, wait_for
from tests.support.serving import serve_master
from tests.web.conftest import sign_in
from tests.web.watch import Watch

_REFUSED = "status of 401"
# What somebody would try who could put markup into a page.
_INJECTED = """() => {
    document.body.insertAdjacentHTML("beforeend", `<p id="hostile" style="color: rgb(1, 2, 3)"
        onclick="window.hacked = 1"><img src="x" onerror="window.hacked = 1"></p>`);
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.body.append(script);
    const style = document.createElement("style");
    style.textContent = "#hostile { color: rgb(1, 2, 3) }";
    document.head.append(style);
    document.getElementById("hostile").click();
    return getComputedStyle(document.getElementById("hostile")).color;
}"""


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
    # Nobody who comes to this screen later can read the token.
    assert page.url == f"{connection.url}/runs?state=FINISHED"
    assert page.evaluate("history.length") == 2
    assert connection.token not in page.content()
    [cookie] = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    # The other pages need no token then.
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("article", name="local-mlbench-worker-0")).to_be_visible()


def test_a_page_leads_to_signing_in_and_back(
    page: Page, connection: Connection, watch: Watch
) -> None:
    watch.expect(_REFUSED)
    page.goto(f"{connection.url}/runs?search=digits&state=FAILED")
    token = page.get_by_label("Token")
    expect(token).to_be_focused()
    _enter(page, "wrong")
    expect(token).to_have_accessible_description(
        re.compile("^That is not the token of this master[.]")
    )
    expect(token).to_have_value("")
    _enter(page, connection.token)
    page.wait_for_url(f"{connection.url}/runs?search=digits&state=FAILED")
    _heading(page, "Runs")

    page.get_by_role("button", name="Sign out").click()
    expect(token).to_be_visible()
    assert page.context.cookies() == []
    page.go_back()
    page.wait_for_url("**/signin?next=**")
    expect(token).to_be_visible()


@pytest.mark.slow
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
        _enter(page, connection.token)
        page.wait_for_url(f"{connection.url}/runs?state=FAILED")


def test_injected_markup_does_nothing_and_no_other_server_is_asked(
    user: Page, connection: Connection, watch: Watch
) -> None:
    asked: list[str] = []
    user.on("request", lambda request: asked.append(request.url))
    user.goto(f"{connection.url}/compare")
    expect(user.get_by_role("heading", level=1)).to_be_visible()
    watch.expect("violates the following Content Security Policy directive")
    # The image does not exist.
    watch.allow(r"status of 404 .*/x:|net::ERR")
    assert user.evaluate(_INJECTED) != "rgb(1, 2, 3)"
    wait_for(lambda: user.evaluate("document.querySelector('#hostile img').complete"))
    assert user.evaluate("window.hacked") is None
    assert any(url.endswith("uPlot.esm.js") for url in asked)
    assert all(url.startswith(connection.url) for url in asked)
