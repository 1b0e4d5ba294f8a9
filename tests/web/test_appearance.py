"""Accessibility and layout: phones and large screens, dark and light theme, keyboard."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import StackConnection
from tests.conftest import wait_for
from tests.support.stacks import FAILS, order_command, order_steps, run_to_end

# Font sizes in px: axes, secondary text, body, findings, titles.
_TYPE = {11, 12, 13, 14, 18}
# The pages, and a text that each shows when it is complete.
_PAGES = {
    "/signin": "Token",
    "/": "looks",
    "/workers": "local-mlbench-worker-1",
    "/runs": "looks",
    "/runs?columns=machine,host,commit,throughput,step_time,created,finished,seed,cores": "looks",
    "/runs/{run}": "The run finished",
    "/runs/{run}?tab=ranks": "Time breakdown by rank and attempt",
    "/runs/{run}?tab=logs": "step 300 of 300",
    "/runs/{run}?tab=record": "No missing samples",
    "/compare": "No runs to compare",
    "/compare?runs={run},{other}": "What differs",
    "/compare?runs={run},{other}&tab=verdict": "Differences",
}
# Elements wider than the screen, except within an element that scrolls.
_WIDER = """() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const isIn = (e) => e && (getComputedStyle(e).overflowX !== "visible" || isIn(e.parentElement));
    return [...document.querySelectorAll("body *")]
        .filter((e) => e.getBoundingClientRect().right > clientWidth + 1 && !isIn(e.parentElement))
        .map((e) => e.outerHTML.slice(0, 150));
}"""
_SIZES = """() => {
    const hasText = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const shown = [...document.querySelectorAll("body *:not(script, style)")]
        .filter((e) => hasText(e) && e.checkVisibility());
    return [...new Set(shown.map((e) => parseFloat(getComputedStyle(e).fontSize)))];
}"""
_FOCUSED = """() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const text = element.ariaLabel ?? element.textContent.slice(0, 30);
    const isOutlined = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
    const isSeen = isOutlined || style.boxShadow !== "none";
    return [`${element.tagName}#${element.id} ${text}`, isSeen];
}"""
# Tabs are left out, because arrow keys move between them.
_UNREACHABLE = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
    .filter((e) => e.role !== "tab" && e.checkVisibility() && !e.disabled && e.tabIndex < 0)
    .map((e) => e.outerHTML.slice(0, 100))"""
_MOVING = """() => [...document.querySelectorAll("*")].filter((element) => {
    const style = getComputedStyle(element);
    return [style.transitionDuration, style.animationDuration]
        .some((times) => times.split(",").some((time) => parseFloat(time) > 0.01));
}).map((element) => element.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def pair(client: ApiClient) -> tuple[Run, Run]:
    """Two ended runs; the second one failed."""
    first = run_to_end(client, order_steps(client, "looks", steps=300, rate=1000))
    other = run_to_end(client, order_command(client, "looks-wrong", FAILS))
    return first, other


@pytest.fixture
def visit(user: Page, connection: StackConnection, pair: tuple[Run, Run]) -> Callable[[str], Page]:
    """A function that opens a page and waits until it is complete."""
    first, other = pair

    def open_page(path: str) -> Page:
        user.goto(connection.url + path.format(run=first.id, other=other.id))
        expect(user.get_by_text(_PAGES[path]).first).to_be_visible()
        user.wait_for_load_state("networkidle")
        return user

    return open_page


def _check_accessibility(page: Page) -> None:
    """Check that axe-core finds no violations in the light and the dark theme."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        violations = Axe().run(page).response["violations"]
        faults = [
            f"{violation['id']}: {node['html'][:200]}: {node['failureSummary']}"
            for violation in violations
            for node in violation["nodes"]
        ]
        assert not faults, "\n".join(faults)


def _check_keyboard(page: Page) -> None:
    """Check that the Tab key reaches every control and the focus is visible."""
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    if not page.url.endswith("/signin"):
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached: list[str] = []
    for _ in range(120):
        name, is_seen = page.evaluate(_FOCUSED)
        page.keyboard.press("Tab")
        if name.startswith("BODY"):
            continue
        if name in reached[:1]:
            break
        assert is_seen, f"no focus ring: {name}"
        reached.append(name)
    assert page.evaluate(_UNREACHABLE) == []
    assert len(reached) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("path", _PAGES)
def test_pages_are_accessible_and_fit_each_screen(visit: Callable[[str], Page], path: str) -> None:
    page = visit(path)
    # Tests request reduced motion.
    assert page.evaluate(_MOVING) == []
    assert set(page.evaluate(_SIZES)) <= _TYPE
    _check_keyboard(page)
    _check_accessibility(page)
    for width in (375, 768, 1000, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        # Charts adapt to the new width with a delay.
        with suppress(AssertionError):
            wait_for(lambda: not page.evaluate(_WIDER), 5)
        assert page.evaluate(_WIDER) == [], f"at {width} px"


def _open_new_run(page: Page) -> Locator:
    page.get_by_role("button", name="New run").first.click()
    dialog = page.get_by_role("dialog", name="New run")
    expect(dialog.get_by_label("Benchmark")).to_be_visible()
    return dialog


def _open_delete(page: Page) -> Locator:
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    return page.get_by_role("dialog", name="Delete this run?")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "open_dialog"), [("/runs", _open_new_run), ("/runs/{run}", _open_delete)]
)
def test_dialogs_are_accessible_and_fit_a_phone(
    visit: Callable[[str], Page], path: str, open_dialog: Callable[[Page], Locator]
) -> None:
    page = visit(path)
    dialog = open_dialog(page)
    _check_accessibility(page)
    page.set_viewport_size({"width": 375, "height": 700})
    fits = "(d) => d.scrollWidth <= d.clientWidth && d.getBoundingClientRect().right <= innerWidth"
    assert dialog.evaluate(fits)
    # The focus stays in the dialog and returns to the button that opened it.
    outside = (
        "document.activeElement !== document.body && !document.activeElement.closest('dialog')"
    )
    for _ in range(30):
        page.keyboard.press("Tab")
        assert not page.evaluate(outside)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(
        page.get_by_role("button", name=re.compile("New run|More actions")).first
    ).to_be_focused()


def _theme(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return "dark" if sum(map(int, re.findall(r"\d+", found)[:3])) < 3 * 128 else "light"


def test_the_theme_follows_the_system_until_the_user_chooses_one(
    user: Page, connection: StackConnection
) -> None:
    # An unknown stored theme is ignored.
    user.evaluate("localStorage.setItem('mlbench-theme', 'pink')")
    user.reload()
    menu = user.get_by_role("button", name="Menu")
    menu.click()
    button = user.get_by_role("button", name=re.compile("^Theme"))
    for system in ("dark", "light"):
        user.emulate_media(color_scheme=system)
        assert _theme(user) == system
    for chosen in ("light", "dark"):
        button.click()
        expect(button).to_contain_text(chosen)
        assert _theme(user) == chosen
    user.goto(f"{connection.url}/runs")
    assert _theme(user) == "dark"
    menu.click()
    button.click()
    expect(button).to_contain_text("auto")
    assert _theme(user) == "light"
