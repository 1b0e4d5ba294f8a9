"""``dialog.js``: asking before something that cannot be undone."""

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import wait_for
from tests.web.js.conftest import Call

_ASK = """({ confirm }) => {
    document.getElementById("theme").focus();
    confirm("Delete this run?", "It is gone then.", "Delete").then((yes) => { window.said = yes; });
}"""


@pytest.fixture
def asked(own_page: Page, call: Call) -> Page:
    """A page that asks something, since its theme button was pressed."""
    call("js/dialog.js", _ASK)
    return own_page


def test_it_says_what_will_happen(asked: Page) -> None:
    dialog = asked.get_by_role("dialog", name="Delete this run?")
    expect(dialog).to_contain_text("It is gone then.")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    wait_for(lambda: asked.evaluate("window.said") is True, what="it says yes")


@pytest.mark.parametrize("way", ["Escape", "Cancel"])
def test_it_does_nothing_unasked(asked: Page, way: str) -> None:
    dialog = asked.get_by_role("dialog")
    # What does no harm has the focus.
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    if way == "Escape":
        asked.keyboard.press("Escape")
    else:
        asked.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    wait_for(lambda: asked.evaluate("window.said") is False, what="it says no")
    expect(asked.locator("#theme")).to_be_focused()
