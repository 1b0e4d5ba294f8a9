"""What the pages' policy promises, in a real browser: only what the master serves."""

from playwright.sync_api import Page, expect

from mlbench.home import Connection
from tests.conftest import wait_for
from tests.web.watch import Watch

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
    assert any(url.endswith("plotly.min.js") for url in asked)
    assert all(url.startswith(connection.url) for url in asked)
