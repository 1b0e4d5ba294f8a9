"""Comparison reports and published sites, opened as files in a browser without a network."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from mlbench.archive import bundle
from mlbench.contract.comparisons import Comparison
from mlbench.evaluation import sandbox
from mlbench.report.page import render
from mlbench.report.pages import comparison_page, of_archives
from mlbench_publish import site
from tests.support.results import make_archive, make_result, make_unreached

_SET = Path(__file__).parents[3] / "docs" / "archives" / "results-digits-linear.mlbench"


@pytest.fixture
def offline(context: BrowserContext) -> Page:
    """A page in a browser without a network."""
    context.set_offline(True)
    return context.new_page()


@pytest.fixture(scope="module")
def compared() -> tuple[Comparison, Mapping[int, str]]:
    """The comparison of a published set, and the digests of its archives by run."""
    return sandbox.compare([_SET])


@pytest.fixture
def report(compared: tuple[Comparison, Mapping[int, str]], tmp_path: Path) -> Path:
    """The HTML report of the set's comparison."""
    comparison, digests = compared
    file = tmp_path / "report.html"
    runs = of_archives([_SET], digests)([result.run_id for result in comparison.results])
    file.write_text(render(comparison_page(comparison, runs)))
    return file


def test_a_report_opened_as_a_file_shows_the_figures_of_the_api(
    offline: Page, report: Path, compared: tuple[Comparison, Mapping[int, str]]
) -> None:
    comparison, _ = compared
    requests: list[str] = []
    offline.on("request", lambda request: requests.append(request.url))
    offline.goto(report.as_uri())
    group = comparison.groups[1]
    assert group.speedup is not None
    speedup = f"{group.speedup:.2f}\N{MULTIPLICATION SIGN}"
    expect(offline.get_by_text(speedup).first).to_be_attached()
    for result in comparison.results:
        expect(offline.locator("body")).to_contain_text(f"{result.run_id}")
    # The page downloads its embedded data, which equals the API's answer.
    with offline.expect_download() as download:
        offline.get_by_role("link", name="Download JSON").click()
    downloaded: Any = json.loads(download.value.path().read_text())
    assert downloaded == json.loads(json.dumps(comparison.to_fields()))
    expect(offline.get_by_role("heading", name="About this file")).to_be_visible()
    expect(offline.locator(".uplot").first).to_be_attached()
    assert {url.partition(":")[0] for url in requests} <= {"file", "data", "blob"}
    assert [url for url in requests if url.startswith("file:")] == [report.as_uri()]


def test_a_report_has_curves_over_each_axis(offline: Page, report: Path) -> None:
    for axis in ("training", "wall", "step", "epoch"):
        offline.goto(f"{report.as_uri()}?metric=train_loss&axis={axis}")
        expect(offline.locator(".uplot").first).to_be_visible()
        assert f"axis={axis}" in offline.url
    # Runs in the address are ignored: the file has only its own.
    offline.goto(f"{report.as_uri()}?runs=1,2&target=loss<=1")
    expect(offline.locator(".uplot").first).to_be_visible()
    assert "target" not in offline.url


def test_a_report_has_no_accessibility_violations(offline: Page, report: Path) -> None:
    offline.goto(report.as_uri())
    expect(offline.locator(".uplot").first).to_be_visible()
    found = Axe().run(offline, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]})
    assert not found.response["violations"], found.generate_report()


def test_a_second_click_reverses_the_order_of_a_column(offline: Page, tmp_path: Path) -> None:
    results = [make_result(1, 1), make_result(2, 4), make_unreached(3, 2)]
    entries = site.read_entries([make_archive(tmp_path, result) for result in results])
    site.write(entries, [], tmp_path / "site")
    offline.goto((tmp_path / "site" / "index.html").as_uri())
    names = offline.locator("tbody td:first-child")
    expect(names).to_have_text(["digits-w4-r1", "digits-w1-r1", "digits-w2-r1"])
    offline.get_by_role("button", name="Workers").click()
    expect(names).to_have_text(["digits-w1-r1", "digits-w2-r1", "digits-w4-r1"])
    offline.get_by_role("button", name="Workers").click()
    expect(names).to_have_text(["digits-w4-r1", "digits-w2-r1", "digits-w1-r1"])
    offline.set_viewport_size({"width": 390, "height": 844})
    assert offline.evaluate("document.documentElement.scrollWidth") == 390
    offline.get_by_role("link", name="digits-w4-r1").click()
    expect(offline.get_by_role("heading", name="digits-w4-r1")).to_be_visible()
    assert offline.evaluate("document.documentElement.scrollWidth") == 390
    offline.get_by_role("link", name="All results").click()
    expect(offline.get_by_role("heading", name="Results", exact=True)).to_be_visible()


def test_a_set_page_links_to_its_runs(
    offline: Page, compared: tuple[Comparison, Mapping[int, str]], tmp_path: Path
) -> None:
    with TemporaryDirectory() as folder:
        entries = site.read_entries(bundle.archives_in(_SET, Path(folder)))
        run_set = bundle.read_set(_SET)
        assert run_set
        site.write(entries, [site.SetEntry(_SET, run_set, *compared)], tmp_path)
    offline.goto((tmp_path / "index.html").as_uri())
    offline.get_by_role("link", name="results-digits-linear", exact=True).click()
    heading = offline.get_by_role("heading", name=re.compile("results-digits-linear"))
    expect(heading.first).to_be_visible()
    offline.get_by_role("link", name="#14", exact=True).first.click()
    expect(offline.get_by_text("14 (results-digits-linear-")).to_be_visible()
    expect(offline.locator("#facts")).to_contain_text("digits-linear")
    in_head = (
        "(e) => e.firstChild.getBoundingClientRect().bottom <= e.getBoundingClientRect().bottom"
    )
    assert offline.locator("#facts").evaluate(in_head)
    expect(offline.get_by_text("not yet counted")).to_be_hidden()
    expect(offline.get_by_role("heading", name="About this file")).to_be_visible()
