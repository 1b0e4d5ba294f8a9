"""Charts by plotly.js, under the pages' policy."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mlbench.home import Connection

_DRAW = """async (lines) => {
    const sheet = document.querySelector('link[href$="/style.css"]').href;
    const { Chart } = await import(sheet.replace("style.css", "js/chart.js"));
    const place = document.createElement("div");
    place.style.width = "800px";
    main.replaceChildren(place);
    window.chart = new Chart(place, "A chart");
    await window.chart.draw(lines, { x: "step", y: "<i>loss</i>" });
}"""
_LINE = {"name": "<b>first</b>", "x": [1, 2, 3], "y": [3.0, 1.0, 2.0]}
_OTHER = {"name": "second", "x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}

Draw = Callable[..., None]


@pytest.fixture
def draw(page: Page, connection: Connection) -> Draw:
    """Draws lines on a page of the master's."""
    page.goto(f"{connection.url}/signin")

    def draw_lines(*lines: Mapping[str, Any]) -> None:
        page.evaluate(_DRAW, list(lines))

    return draw_lines


def test_lines_and_bands_are_drawn_and_named_as_they_are(page: Page, draw: Draw) -> None:
    draw(_LINE, _OTHER)
    chart = page.get_by_role("img", name="A chart")
    expect(chart.locator(".scatterlayer .js-line")).to_have_count(2)
    expect(chart.locator(".js-fill")).to_have_count(0)
    # Names are texts, whatever they contain.
    for text in ("<b>first</b>", "second", "<i>loss</i>"):
        expect(chart).to_contain_text(text)
    draw({**_LINE, "lows": [2.0, 0.5, 1.0], "highs": [4.0, 1.5, 3.0]})
    expect(chart.locator(".js-fill")).to_have_count(1)


def test_odd_values_are_gaps_and_break_no_rule(page: Page, draw: Draw) -> None:
    line = {"name": "$5 or $6", "x": [1, 2, 3, 4, 5], "y": [1.0, 2.0, 1e308, -1e308, 3.0]}
    draw({**line, "lows": [0.5, 1.0, 1.0, -1e308, 2.0], "highs": line["y"]}, _OTHER)
    expect(page.locator(".scatterlayer .js-line").nth(1)).to_have_attribute("d", re.compile("M"))
    expect(page.locator(".legendtext").first).to_have_text("$5 or $6")
    for value in (1e38, 1e-20):
        draw({"name": "loss", "x": [1, 2], "y": [0.0, value]})
        expect(page.locator(".ytick text").last).to_contain_text("e")


def test_a_chart_follows_its_place_and_the_theme(page: Page, draw: Draw) -> None:
    draw(_LINE)
    drawn = page.locator(".main-svg").first
    expect(drawn).to_have_attribute("width", "800")
    page.evaluate("chart.element.style.width = '400px'")
    expect(drawn).to_have_attribute("width", "400")
    tick = page.locator(".xtick text").first
    light = tick.evaluate("(element) => getComputedStyle(element).fill")
    page.emulate_media(color_scheme="dark")
    expect(tick).not_to_have_css("fill", light)
