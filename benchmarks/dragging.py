"""Cost of dragging over a chart of many long curves in Chromium, from a trace."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks import servers, traces
from benchmarks.measure import Figure
from tests.support.chromium import running_chromium

_RUNS, _SAMPLES = 20, 100_000
_MOVES, _MOVE_MS = 300, 10
_DRAW = """async ([runs, samples]) => {
    const sheet = document.querySelector('link[href$="/style.css"]').href;
    const { Chart } = await import(sheet.replace("style.css", "js/chart.js"));
    const place = document.createElement("div");
    main.replaceChildren(place);
    const chart = new Chart(place, "Loss");
    const lines = Array.from({ length: runs }, (_, run) => {
        const x = Array.from({ length: samples }, (_, i) => i * (1 + run / 100));
        const y = x.map((at) => Math.exp(-at / samples) + run / 50 + Math.random() / 5);
        return { name: `run ${run}`, x, y };
    });
    const begin = performance.now();
    chart.draw(lines, { x: "step", y: "loss", smoothing: 0.02 });
    await new Promise(requestAnimationFrame);
    return performance.now() - begin;
}"""


def measure(folder: Path) -> Iterator[Figure]:
    """Yield how long curves take to be drawn smoothed, and the frames while one drags."""
    with (
        servers.running_prometheus(folder) as prometheus_url,
        servers.running_api(folder, prometheus_url) as master,
        running_chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://127.0.0.1:{master.port}/signin")
        curves = f"{_RUNS} curves of {_SAMPLES:,} samples"
        times = [float(page.evaluate(_DRAW, [_RUNS, _SAMPLES])) for _ in range(3)]
        yield Figure(f"{curves}: smoothed and drawn", "ms", times)
        for ranged in ("all of them", "zoomed to a part"):
            box = page.locator(".u-over").bounding_box()
            assert box
            middle = box["y"] + box["height"] / 2
            page.mouse.move(box["x"] + 50, middle)
            page.mouse.down()
            traces.begin(browser, page)
            for i in range(_MOVES):
                share = 0.1 + 0.8 * abs(2 * i / _MOVES - 1)
                page.mouse.move(box["x"] + share * box["width"], middle + i % 7)
                page.wait_for_timeout(_MOVE_MS)
            events = traces.end(browser)
            page.mouse.up()
            counts = Counter(event["name"] for event in events)
            for event, outcome in (("DrawFrame", "drawn"), ("DroppedFrame", "dropped")):
                yield Figure(f"  {_MOVES} moves, {ranged}: frames {outcome}", "", [counts[event]])
            yield Figure("  longest task, on the processor", "ms", [traces.longest_task_ms(events)])
