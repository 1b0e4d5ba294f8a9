"""The published list of results in a browser: it sorts, and fits a phone."""

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from mlbench.report import site
from tests.support.results import make_archive, make_result, make_unreached


def test_a_column_sorts_and_sorts_again(context: BrowserContext, tmp_path: Path) -> None:
    results = [make_result(1, 1), make_result(2, 4), make_unreached(3, 2)]
    entries = site.read_entries([make_archive(tmp_path, result) for result in results])
    site.write(entries, [], tmp_path / "site")
    page = context.new_page()
    page.goto((tmp_path / "site" / "index.html").as_uri())
    names = page.locator("tbody td:first-child")
    expect(names).to_have_text(["digits-w4-r1", "digits-w1-r1", "digits-w2-r1"])
    page.get_by_role("button", name="workers").click()
    expect(names).to_have_text(["digits-w1-r1", "digits-w2-r1", "digits-w4-r1"])
    page.get_by_role("button", name="workers").click()
    expect(names).to_have_text(["digits-w4-r1", "digits-w2-r1", "digits-w1-r1"])
    page.set_viewport_size({"width": 390, "height": 844})
    for _ in ("the list", "a run's page"):
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="MLBench results")).to_be_visible()
