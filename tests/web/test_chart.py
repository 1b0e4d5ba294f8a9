"""Line charts under the content security policy of the pages."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect

from mlbench.local.home import StackConnection
from tests.conftest import wait_for
from tests.web.conftest import drag

_DRAW = """async ([lines, axes]) => {
    const sheet = document.querySelector('link[href$="/style.css"]').href;
    const { Chart } = await import(sheet.replace("style.css", "js/chart.js"));
    if (!window.chart) {
        const place = document.createElement("div");
        place.id = "place";
        place.style.width = "800px";
        main.replaceChildren(place);
        window.chart = new Chart(place, "A chart");
    }
    window.chart.draw(lines, { x: "step", y: "<i>loss</i>", ...axes });
}"""
# Counts pixels of a similar colour in a chart. Anti-aliasing changes thin lines.
_COUNT = """(canvas, [red, green, blue, alpha]) => {
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    let found = 0;
    for (let i = 0; i < data.length; i += 4) {
        const away = [red, green, blue].map((one, j) => Math.abs(data[i + j] - one));
        if (Math.max(...away) < 12 && Math.abs(data[i + 3] - alpha) < 32) found += 1;
    }
    return found;
}"""
_COLOUR = """(name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const [red, green, blue] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
    probe.remove();
    return [red, green, blue];
}"""
_OF_BANDS = 0x33
_LINE = {"name": "<b>first</b>", "x": [1, 2, 3], "y": [3.0, 1.0, 2.0]}
_OTHER = {"name": "second", "x": [1.5, 2, 3], "y": [1.0, 2.0, 3.0]}


def draw(page: Page, *lines: Mapping[str, Any], **axes: object) -> None:
    page.evaluate(_DRAW, [list(lines), axes])


def pixels(page: Page, colour: str, alpha: int = 255) -> int:
    sought = [*page.evaluate(_COLOUR, colour), alpha]
    return int(page.locator("#place canvas").evaluate(_COUNT, sought))


def test_charts_draw_lines_and_bands_with_any_values(page: Page, still: StackConnection) -> None:
    page.goto(f"{still.url}/signin")
    draw(page, _LINE, _OTHER)
    assert pixels(page, "--series-0") > 200
    assert pixels(page, "--series-1") > 200
    # Names are shown as text, not as markup.
    entries = page.get_by_role("group", name="Shown lines").get_by_role("button")
    expect(entries).to_have_text(["<b>first</b>", "second"])
    name = "A chart: <b>first</b>, second; <i>loss</i> by step"
    expect(page.get_by_role("img", name=name)).to_be_visible()

    entries.first.click()
    expect(entries.first).to_have_attribute("aria-pressed", "false")
    assert pixels(page, "--series-0") == 0
    draw(page, _LINE, _OTHER)
    assert pixels(page, "--series-0") == 0, "a hidden line must stay hidden"
    entries.first.click()
    assert pixels(page, "--series-0") > 200

    assert pixels(page, "--series-0", _OF_BANDS) < 500, (
        "without a band, only edges of lines have this colour"
    )
    draw(page, {**_LINE, "lows": [2.0, 0.5, 1.0], "highs": [4.0, 1.5, 3.0]}, _OTHER)
    assert pixels(page, "--series-0", _OF_BANDS) > 2000

    # The chart follows the size of its container and the theme.
    canvas = page.locator("#place canvas")
    expect(canvas).to_have_attribute("width", "800")
    page.evaluate("place.style.width = '400px'")
    expect(canvas).to_have_attribute("width", "400")
    light = page.evaluate(_COLOUR, "--rule")
    assert pixels(page, "--rule") > 100
    page.emulate_media(color_scheme="dark")
    wait_for(lambda: pixels(page, "--rule") > 100)
    assert page.evaluate(_COLOUR, "--rule") != light

    # Missing values are gaps, and extreme values have an exponent.
    odd = {"name": "$5 or $6", "x": [1, 2, 3, 4, 5], "y": [1.0, 2.0, 1e308, None, 3.0]}
    draw(page, {**odd, "lows": [0.5, 1.0, 1.0, -1e308, 2.0], "highs": odd["y"]}, _OTHER)
    expect(entries.first).to_have_text("$5 or $6")
    assert pixels(page, "--series-1") > 100
    draw(page, {"name": "loss", "x": [1, 2], "y": [0.0, 1e-20]}, yType="log")
    draw(page, {"name": "none", "x": [], "y": []})


def test_hovering_shows_values_and_dragging_zooms(page: Page, still: StackConnection) -> None:
    page.goto(f"{still.url}/signin")
    draw(page, _LINE, _OTHER)
    area, values = page.locator("#place .u-over"), page.locator("#place .chart-values")
    expect(values).to_be_hidden()
    area.hover()
    expect(values).to_have_text("step 2second2<b>first</b>1")
    drag(page, area, 0.7, 0.98)
    # A chart that is redrawn keeps its zoom, so its middle is nearer to the last point.
    draw(page, _LINE, _OTHER)
    page.mouse.move(0, 0)
    area.hover()
    expect(values).to_contain_text("step 3")
    area.dblclick()
    area.hover()
    expect(values).to_contain_text("step 2")


_DRAW_TWO = """async (lines) => {
    const sheet = document.querySelector('link[href$="/style.css"]').href;
    const { Chart } = await import(sheet.replace("style.css", "js/chart.js"));
    main.replaceChildren();
    for (const [label, unit] of [["Seconds", 1], ["Minutes", 60]]) {
        const place = document.createElement("div");
        main.append(place);
        const shared = { axis: "wall", unit };
        const drawn = lines.map((line) => ({ ...line, x: line.x.map((at) => at / unit) }));
        new Chart(place, label).draw(drawn, { x: label, y: "loss", shared, smoothing: 0.1 });
    }
}"""


def test_charts_with_a_shared_axis_keep_their_zoom_in_the_url(
    page: Page, still: StackConnection
) -> None:
    page.goto(f"{still.url}/signin")
    lines = [{"name": "a", "x": [0, 60, 120], "y": [3.0, 1.0, 2.0]}, _OTHER]
    page.evaluate(_DRAW_TWO, lines)
    every = page.get_by_role("button", name="Show all")
    expect(every).to_have_count(0)
    areas, values = page.locator(".u-over"), page.locator(".chart-values")
    drag(page, areas.nth(1), 0.4, 0.9)  # the chart in minutes
    expect(every).to_have_count(2)
    [(_, zoom)] = parse_qsl(urlsplit(page.url).query)
    axis, start, end = zoom.split(",")
    assert axis == "wall"
    assert [float(start), float(end)] == pytest.approx([48, 108], abs=3)
    areas.first.hover()
    # The other line ends earlier, and hovering shows smoothed values.
    expect(values.first).to_have_text(re.compile(r"^Seconds 60a1\.\d+$"))

    page.goto(page.url)
    page.evaluate(_DRAW_TWO, lines)
    expect(every).to_have_count(2)
    page.get_by_role("button", name="a", exact=True).first.click()  # hidden lines are not saved
    saved = []
    for kind in ("CSV", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"{kind} of Seconds").click()
        assert download.value.suggested_filename == f"sign-in-seconds.{kind.lower()}"
        saved.append(Path(download.value.path()).read_bytes())
    assert saved[0].startswith(b"line,Seconds,loss,smoothed\r\nsecond,1.5,1,1\r\nsecond,2,2,1.5")
    assert saved[1].startswith(b"\x89PNG")
    every.first.click()
    expect(every).to_have_count(0)
    assert "zoom" not in page.url
