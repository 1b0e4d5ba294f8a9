"""Charts by plotly.js, under the pages' policy."""

import re
from collections.abc import Mapping
from typing import Any

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


def test_charts_draw_lines_and_bands_whatever_they_hold(page: Page, still: Connection) -> None:
    page.goto(f"{still.url}/signin")

    def draw(*lines: Mapping[str, Any]) -> None:
        page.evaluate(_DRAW, list(lines))

    draw(_LINE, _OTHER)
    chart = page.get_by_role("img", name="A chart")
    expect(chart.locator(".scatterlayer .js-line")).to_have_count(2)
    expect(chart.locator(".js-fill")).to_have_count(0)
    # Names are texts, whatever they contain.
    for text in ("<b>first</b>", "second", "<i>loss</i>"):
        expect(chart).to_contain_text(text)
    draw({**_LINE, "lows": [2.0, 0.5, 1.0], "highs": [4.0, 1.5, 3.0]})
    expect(chart.locator(".js-fill")).to_have_count(1)

    # It follows its place and the theme.
    drawn = page.locator(".main-svg").first
    expect(drawn).to_have_attribute("width", "800")
    page.evaluate("chart.element.style.width = '400px'")
    expect(drawn).to_have_attribute("width", "400")
    tick = page.locator(".xtick text").first
    light = tick.evaluate("(element) => getComputedStyle(element).fill")
    page.emulate_media(color_scheme="dark")
    expect(tick).not_to_have_css("fill", light)

    # Odd values are gaps, and break no rule.
    line = {"name": "$5 or $6", "x": [1, 2, 3, 4, 5], "y": [1.0, 2.0, 1e308, -1e308, 3.0]}
    draw({**line, "lows": [0.5, 1.0, 1.0, -1e308, 2.0], "highs": line["y"]}, _OTHER)
    expect(page.locator(".scatterlayer .js-line").nth(1)).to_have_attribute("d", re.compile("M"))
    expect(page.locator(".legendtext").first).to_have_text("$5 or $6")
    for value in (1e38, 1e-20):
        draw({"name": "loss", "x": [1, 2], "y": [0.0, value]})
        expect(page.locator(".ytick text").last).to_contain_text("e")
