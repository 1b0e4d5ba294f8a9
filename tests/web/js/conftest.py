"""What tests of modules share: a page of the master's that imports one and calls it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from mlbench.home import Connection
from tests.web.watch import Watch

Call = Callable[..., Any]

_IMPORT = """async ([path, given]) => {
    const sheet = document.querySelector('link[href$="/style.css"]').href;
    const module = await import(sheet.replace(/style\\.css$/, path));
    return await (%s)(module, given);
}"""


def call_in(page: Page) -> Call:
    """Return what imports a module into a page, calls a function with it, and returns its value."""

    def call(path: str, function: str, given: object = None) -> Any:
        return page.evaluate(_IMPORT % function, [path, given])

    return call


@pytest.fixture(scope="module")
def shared_page(chromium: Browser, connection: Connection) -> Iterator[Page]:
    """A page for tests that only compute in it, in Zurich's time."""
    watch = Watch()
    with chromium.new_context(timezone_id="Europe/Zurich", locale="de-CH") as context:
        watch.follow(context)
        page = context.new_page()
        page.goto(f"{connection.url}/signin")
        yield page
    watch.check()


@pytest.fixture
def compute(shared_page: Page) -> Call:
    """Calls a module's pure functions."""
    return call_in(shared_page)


@pytest.fixture
def own_page(page: Page, connection: Connection) -> Page:
    """A page whose clock stands still until the test moves it."""
    page.clock.install()
    page.goto(f"{connection.url}/signin")
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
    return page


@pytest.fixture
def call(own_page: Page) -> Call:
    """Calls functions of a module that change the page."""
    return call_in(own_page)
