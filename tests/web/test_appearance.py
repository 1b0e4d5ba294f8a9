"""What everybody must be able to use: on phone and large screen, dark and light, by keyboard."""

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

# The sizes of texts in px: axes, secondary texts, body, findings, titles.
_TYPE = {11, 12, 13, 14, 18}
# The pages, with what each shows once it has drawn everything.
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
# What is wider than the screen, unless it lies in something that scrolls by itself.
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
# Arrow keys move among tabs.
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
    """Two runs that have ended, the second of which has failed."""
    first = run_to_end(client, order_steps(client, "looks", steps=300, rate=1000))
    other = run_to_end(client, order_command(client, "looks-wrong", FAILS))
    return first, other


@pytest.fixture
def visit(user: Page, connection: StackConnection, pair: tuple[Run, Run]) -> Callable[[str], Page]:
    """Opens a page, and waits until it shows something."""
    first, other = pair

    def open_page(path: str) -> Page:
        user.goto(connection.url + path.format(run=first.id, other=other.id))
        expect(user.get_by_text(_PAGES[path]).first).to_be_visible()
        user.wait_for_load_state("networkidle")
        return user

    return open_page


def _check_accessibility(page: Page) -> None:
    """Make sure that axe-core finds nothing, on light and dark paper."""
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
    """Make sure that the Tab key reaches everything, and that one sees where it is."""
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
def test_nothing_keeps_anyone_from_using_a_page(visit: Callable[[str], Page], path: str) -> None:
    page = visit(path)
    # Tests ask for reduced motion.
    assert page.evaluate(_MOVING) == []
    assert set(page.evaluate(_SIZES)) <= _TYPE
    _check_keyboard(page)
    _check_accessibility(page)
    for width in (375, 768, 1000, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        # Charts take the new width a moment later.
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
def test_a_dialog_is_for_everyone(
    visit: Callable[[str], Page], path: str, open_dialog: Callable[[Page], Locator]
) -> None:
    page = visit(path)
    dialog = open_dialog(page)
    _check_accessibility(page)
    page.set_viewport_size({"width": 375, "height": 700})
    fits = "(d) => d.scrollWidth <= d.clientWidth && d.getBoundingClientRect().right <= innerWidth"
    assert dialog.evaluate(fits)
    # The focus stays inside, and returns to where it was.
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


def test_the_theme_is_the_systems_until_one_is_chosen_for_all_pages(
    user: Page, connection: StackConnection
) -> None:
    # What is no theme is ignored.
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
