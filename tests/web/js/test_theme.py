"""``theme.js``: the theme, chosen on any page, remembered on all."""

import re

from playwright.sync_api import Browser, Page, expect

from mlbench.home import Connection


def _theme(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return "dark" if sum(map(int, re.findall(r"\d+", found)[:3])) < 3 * 128 else "light"


def test_the_theme_is_the_systems_until_one_is_chosen(page: Page, connection: Connection) -> None:
    page.goto(f"{connection.url}/signin")
    button = page.get_by_role("button", name=re.compile("^Theme"))
    assert _theme(page) == "light"
    page.emulate_media(color_scheme="dark")
    assert _theme(page) == "dark"
    button.click()
    expect(button).to_contain_text("light")
    assert _theme(page) == "light"
    page.emulate_media(color_scheme="light")
    button.click()
    expect(button).to_contain_text("dark")
    assert _theme(page) == "dark"
    # It is remembered, and is there before the first paint.
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert _theme(page) == "dark"
    button.click()
    expect(button).to_contain_text("auto")
    assert _theme(page) == "light"
    page.reload()
    expect(button).to_contain_text("auto")


def test_a_theme_that_is_none_is_the_systems(chromium: Browser, connection: Connection) -> None:
    with chromium.new_context() as context:
        context.add_init_script("localStorage.setItem('mlbench-theme', 'pink')")
        page = context.new_page()
        page.goto(f"{connection.url}/signin")
        expect(page.get_by_role("button", name=re.compile("^Theme"))).to_contain_text("auto")
