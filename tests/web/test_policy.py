"""What the pages' policy promises, held by a real browser: nothing but what the master serves."""

import pytest
from playwright.sync_api import Page, expect

from mlbench.home import Connection
from tests.conftest import wait_for
from tests.web.watch import Watch

_PAGES = ["/signin", "/", "/runs", "/compare", "/nonsense"]
# What somebody would try who got a text of theirs into a page as markup.
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


@pytest.mark.parametrize("path", _PAGES)
def test_what_is_injected_does_nothing(
    user: Page, connection: Connection, watch: Watch, path: str
) -> None:
    if path == "/nonsense":
        watch.expect(r"status of 404 .*/nonsense")
    user.goto(f"{connection.url}{path}")
    expect(user.get_by_role("heading", level=1)).to_be_visible()
    watch.expect("violates the following Content Security Policy directive")
    # The image that is not there.
    watch.allow(r"status of 404 .*/x:|net::ERR")
    assert user.evaluate(_INJECTED) != "rgb(1, 2, 3)"
    wait_for(lambda: user.evaluate("document.querySelector('#hostile img').complete"))
    assert user.evaluate("window.hacked") is None


def test_no_other_server_is_asked(user: Page, connection: Connection) -> None:
    asked: list[str] = []
    user.on("request", lambda request: asked.append(request.url))
    for path in _PAGES[:-1]:
        user.goto(f"{connection.url}{path}")
        expect(user.get_by_role("heading", level=1)).to_be_visible()
    assert asked
    assert not [url for url in asked if not url.startswith(connection.url)]
