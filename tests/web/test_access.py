"""Sign-in by URL or form, sign-out, and the content security policy."""

import re

from playwright.sync_api import Page, expect

from mlbench.local.home import StackConnection
from tests.conftest import wait_for
from tests.web.watch import Watch

_REFUSED = "status of 401"
# An attack by someone who can insert markup into a page.
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


def test_a_page_redirects_to_sign_in_and_back(
    page: Page, connection: StackConnection, watch: Watch
) -> None:
    watch.expect(_REFUSED)
    page.goto(f"{connection.url}/runs?query=digits&state=FAILED")
    token = page.get_by_label("Token")
    expect(token).to_be_focused()
    _enter(page, "wrong")
    expect(token).to_have_accessible_description(
        re.compile("^That is not a token of a user of this master[.]")
    )
    expect(token).to_have_value("")
    _enter(page, connection.token)
    page.wait_for_url(f"{connection.url}/runs?query=digits&state=FAILED")
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()

    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Sign out").click()
    expect(token).to_be_visible()
    assert page.context.cookies() == []
    page.go_back()
    page.wait_for_url("**/signin?next=**")
    expect(token).to_be_visible()


def test_injected_markup_has_no_effect_and_no_other_server_is_requested(
    user: Page, connection: StackConnection, watch: Watch
) -> None:
    asked: list[str] = []
    user.on("request", lambda request: asked.append(request.url))
    user.goto(f"{connection.url}/compare")
    expect(user.get_by_role("heading", level=1)).to_be_visible()
    watch.expect("violates the following Content Security Policy directive")
    # The injected image does not exist.
    watch.allow(r"status of 404 .*/x:|net::ERR")
    assert user.evaluate(_INJECTED) != "rgb(1, 2, 3)"
    wait_for(lambda: user.evaluate("document.querySelector('#hostile img').complete"))
    assert user.evaluate("window.hacked") is None
    assert any(url.endswith("uPlot.esm.js") for url in asked)
    assert all(url.startswith(connection.url) for url in asked)
