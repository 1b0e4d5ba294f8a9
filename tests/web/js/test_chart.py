"""``chart.js``: charts by plotly.js, under the pages' policy."""

import re
from collections.abc import Mapping

import pytest
from playwright.sync_api import Page, expect

from mlbench.home import Connection
from tests.web.js.conftest import call_in

_DRAW = """async ({ Chart }, lines) => {
    const place = document.createElement("div");
    place.style.width = "800px";
    main.replaceChildren(place);
    window.chart = new Chart(place, "A chart");
    await window.chart.draw(lines, { x: "step", y: "<i>loss</i>" });
}"""
_LINE = {"name": "<b>first</b>", "x": [1, 2, 3], "y": [3.0, 1.0, 2.0]}
_OTHER = {"name": "second", "x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}


@pytest.fixture
def empty(page: Page, connection: Connection) -> Page:
    """A page of the master's to draw in."""
    page.goto(f"{connection.url}/signin")
    return page


def _draw(page: Page, *lines: Mapping[str, object]) -> None:
    call_in(page)("js/chart.js", _DRAW, list(lines))


def test_each_line_is_drawn_and_named_as_it_is(empty: Page) -> None:
    _draw(empty, _LINE, _OTHER)
    chart = empty.get_by_role("img", name="A chart")
    expect(chart.locator(".scatterlayer .js-line")).to_have_count(2)
    # Names are texts, whatever they say.
    for text in ("<b>first</b>", "second", "<i>loss</i>"):
        expect(chart).to_contain_text(text)


def test_what_cannot_be_drawn_is_a_gap(empty: Page) -> None:
    line = {"name": "$5 or $6", "x": [1, 2, 3, 4, 5], "y": [1.0, 2.0, 1e308, -1e308, 3.0]}
    _draw(empty, {**line, "lows": [0.5, 1.0, 1.0, -1e308, 2.0], "highs": line["y"]}, _OTHER)
    expect(empty.locator(".scatterlayer .js-line").nth(1)).to_have_attribute("d", re.compile("M"))
    expect(empty.locator(".legendtext").first).to_have_text("$5 or $6")


@pytest.mark.parametrize("value", [1e38, 1e-20])
def test_large_and_small_numbers_break_no_rule(empty: Page, value: float) -> None:
    _draw(empty, {"name": "loss", "x": [1, 2], "y": [0.0, value]})
    expect(empty.locator(".ytick text").last).to_contain_text("e")


def test_a_chart_fits_its_place_also_when_that_changes(empty: Page) -> None:
    _draw(empty, _LINE)
    drawn = empty.locator(".main-svg").first
    expect(drawn).to_have_attribute("width", "800")
    empty.evaluate("chart.element.style.width = '400px'")
    expect(drawn).to_have_attribute("width", "400")


def test_a_band_is_drawn_where_a_point_stands_for_several(empty: Page) -> None:
    _draw(empty, {**_LINE, "lows": [2.0, 0.5, 1.0], "highs": [4.0, 1.5, 3.0]})
    expect(empty.locator(".js-fill")).to_have_count(1)
    _draw(empty, {**_LINE, "lows": _LINE["y"], "highs": _LINE["y"]})
    expect(empty.locator(".scatterlayer .js-line")).to_have_count(1)
    expect(empty.locator(".js-fill")).to_have_count(0)


def test_colours_follow_the_theme(empty: Page) -> None:
    _draw(empty, _LINE)
    tick = empty.locator(".xtick text").first
    light = tick.evaluate("(element) => getComputedStyle(element).fill")
    empty.emulate_media(color_scheme="dark")
    expect(tick).not_to_have_css("fill", light)
