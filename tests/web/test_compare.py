"""The page that compares runs: list of runs, charts, verdict, and exports."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import Locator, Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.web.conftest import Filled, drag, section, sign_in
from tests.web.watch import Watch

_SET = Path(__file__).parents[2] / "docs" / "archives" / "results-digits-linear.mlbench"
# Runs with one and with two workers, and the ends of their titles.
_FIRST, _OTHER = 2, 1
_ENDS = ("w1-r1", "w2-r1")
_ARCHIVES = [f"results-digits-linear-{run}.mlbench" for run in ("w2-r1-14", "w1-r1-15")]


@pytest.fixture(scope="module")
def archived(filled: Filled) -> Iterator[StackConnection]:
    """A master with two imported runs, with one and with two workers."""
    with filled() as connection:
        with ZipFile(_SET) as archives, ApiClient.from_connection(connection) as client:
            for name in _ARCHIVES:
                client.import_archive(BytesIO(archives.read(name)))
        yield connection


@pytest.fixture
def comparison(page: Page, archived: StackConnection) -> Page:
    """The comparison of a run with one worker and a run with two."""
    sign_in(page, archived, f"/compare?runs={_FIRST},{_OTHER}")
    expect(_chart(page, "Validation accuracy")).to_be_visible()
    return page


def _chart(page: Page, title: str) -> Locator:
    return section(page, title).get_by_role("img").first


def _lit(page: Page) -> Locator:
    return page.locator(".selected-run.lit")


def test_runs_are_grouped_by_chosen_settings(comparison: Page) -> None:
    comparison.get_by_label("Group by").fill("unheard_of")
    comparison.get_by_label("Group by").press("Enter")
    expect(comparison).to_have_url(re.compile("by=unheard_of"))
    verdict = comparison.locator("#side")
    comparison.get_by_role("tab", name="Verdict").click()
    expect(verdict).to_contain_text("no run states unheard_of, by which they are grouped")
    download = comparison.get_by_role("link", name="Download JSON")
    expect(download).to_have_attribute("href", re.compile("group=unheard_of"))
    comparison.get_by_label("Group by").fill("")
    comparison.get_by_label("Group by").press("Enter")
    expect(verdict).not_to_contain_text("no run states")


def test_visibility_and_colours_of_runs_are_kept_in_the_url(comparison: Page) -> None:
    chart = _chart(comparison, "Validation accuracy")
    for end in _ENDS:
        expect(chart).to_have_accessible_name(re.compile(end))
    rows = comparison.get_by_role("list", name=re.compile("runs?$")).get_by_role("listitem")
    expect(rows).to_have_count(2)
    colours = [row.locator("line").get_attribute("stroke") for row in rows.all()]
    assert colours == ["var(--series-0)", "var(--series-1)"]

    # A hidden run has no curve, even after a reload.
    eye = comparison.get_by_role("button", name=f"Curve of run {_FIRST}")
    eye.click()
    expect(eye).to_have_attribute("aria-pressed", "false")
    expect(chart).not_to_have_accessible_name(re.compile("w1-r1"))
    comparison.reload()
    expect(chart).to_have_accessible_name(re.compile("w2-r1"))
    expect(chart).not_to_have_accessible_name(re.compile("w1-r1"))
    eye.click()
    expect(chart).to_have_accessible_name(re.compile("w1-r1"))

    # Hovering a row, a bar or a curve highlights the run.
    rows.first.hover()
    expect(_lit(comparison)).to_contain_text(f"#{_FIRST}")
    section(comparison, "Time to target").locator(".bar-row", has_text=f"#{_OTHER}").hover()
    expect(_lit(comparison)).to_contain_text(f"#{_OTHER}")

    # A run keeps its colour when another one is removed.
    comparison.get_by_role("button", name=f"Remove run {_FIRST}").click()
    expect(rows).to_have_count(1)
    assert rows.first.locator("line").get_attribute("stroke") == "var(--series-1)"
    comparison.reload()
    expect(rows).to_have_count(1)
    assert rows.first.locator("line").get_attribute("stroke") == "var(--series-1)"
    assert f"runs=-,{_OTHER}" in comparison.url


def test_charts_are_added_and_share_their_axis(comparison: Page) -> None:
    chart = _chart(comparison, "Validation accuracy")
    comparison.get_by_text("Axes", exact=True).click()
    for axis in ("Wall-clock time", "Step", "Training time"):
        comparison.get_by_role("radio", name=axis).check()
        expect(chart).to_have_accessible_name(re.compile(f"by {axis}", re.IGNORECASE))
    comparison.get_by_text("Axes", exact=True).click()
    comparison.get_by_role("combobox", name="Add a chart").select_option("val_global_loss")
    expect(_chart(comparison, "Validation loss")).to_be_visible()
    loss = section(comparison, "Training loss")
    loss.get_by_role("button", name="Export Training loss").click()
    loss.get_by_role("button", name="Remove chart").click()
    expect(loss).to_have_count(0)
    # The URL keeps the charts and the zoom.
    comparison.reload()
    expect(_chart(comparison, "Validation loss")).to_be_visible()
    drag(comparison, comparison.locator(".u-over").first, 0.2, 0.7)
    expect(comparison.get_by_role("button", name="Show all")).to_have_count(2)


def test_the_verdict_lists_differences(comparison: Page, watch: Watch) -> None:
    comparison.get_by_role("button", name=re.compile("^What differs")).click()
    expect(comparison.get_by_role("tab", name="Verdict")).to_have_attribute("aria-selected", "true")
    verdict = comparison.get_by_role("tabpanel", name="Verdict")
    expect(verdict.get_by_role("definition").filter(has_text="rank").first).to_be_visible()
    results = section(comparison, "Result of each run")
    for end in _ENDS:
        expect(results.get_by_role("row").filter(has_text=end)).to_be_visible()
    expect(section(comparison, "Groups of runs").get_by_role("row")).to_have_count(3)
    differences = section(comparison, "Differences")
    expect(differences.get_by_role("row").filter(has_text="workers").first).to_be_visible()

    # Arrow keys move between tabs, and the URL keeps the selected tab.
    comparison.reload()
    tab = comparison.get_by_role("tab", name="Verdict")
    expect(tab).to_have_attribute("aria-selected", "true")
    tab.press("ArrowLeft")
    expect(comparison.get_by_role("tab", name="Charts")).to_be_focused()
    expect(section(comparison, "Time to target")).to_be_visible()

    target = comparison.get_by_role("textbox", name="Target")
    target.fill("val_global_Prec@1>=100.5")
    target.press("Enter")
    expect(section(comparison, "Time to target")).to_be_hidden()
    watch.expect("status of 400")
    target.fill("nonsense")
    target.press("Enter")
    expect(comparison.get_by_role("alert")).to_be_visible()


def test_figures_and_tables_are_copied(comparison: Page) -> None:
    comparison.context.grant_permissions(["clipboard-read", "clipboard-write"])
    accuracy = section(comparison, "Validation accuracy")
    accuracy.get_by_role("button", name="Export Validation accuracy").click()
    accuracy.get_by_role("button", name="Copy as figure").click()
    copied = comparison.get_by_role("status").filter(has_text="Copied")
    expect(copied).to_be_visible()
    figure = comparison.evaluate("navigator.clipboard.readText()")
    assert figure.startswith("<svg")
    for part in ("Validation accuracy over training time", *_ENDS, "seed 1", "MLBench"):
        assert part in figure
    accuracy.get_by_role("button", name="Export Validation accuracy").click()
    with comparison.expect_download() as download:
        accuracy.get_by_role("button", name="SVG", exact=True).click()
    assert download.value.suggested_filename == "compare-validation-accuracy.svg"
    assert Path(download.value.path()).read_text() == figure

    comparison.get_by_role("tab", name="Verdict").click()
    results = section(comparison, "Results")
    for kind, beginning in (("Markdown", "| Run |"), ("LaTeX", r"\begin{table}")):
        results.get_by_role("button", name="Export Results").click()
        results.get_by_role("button", name=f"Copy as {kind}").click()
        starts = "async (start) => (await navigator.clipboard.readText()).startsWith(start)"
        comparison.wait_for_function(starts, arg=beginning)
        text = comparison.evaluate("navigator.clipboard.readText()")
        assert re.search(rf"w1-r1 \\?#{_FIRST}", text)


def test_printed_charts_are_complete_and_controls_are_hidden(comparison: Page) -> None:
    accuracy = section(comparison, "Validation accuracy")
    expect(accuracy.locator(".chart-plot > svg")).to_have_count(0)
    comparison.emulate_media(media="print")
    expect(accuracy.locator(".chart-plot > svg")).to_be_visible()
    expect(accuracy.locator("canvas")).to_be_hidden()
    expect(comparison.get_by_role("navigation")).to_have_count(0)
    expect(comparison.get_by_role("button").filter(visible=True)).to_have_count(2)  # colours
    expect(comparison.get_by_text("then Enter").filter(visible=True)).to_have_count(0)
    expect(section(comparison, "Results")).to_be_visible()
    comparison.emulate_media(media="screen")
    expect(accuracy.locator("canvas")).to_be_visible()


def test_an_empty_comparison_is_explained(
    user: Page, connection: StackConnection, watch: Watch
) -> None:
    user.goto(f"{connection.url}/compare")
    expect(user.get_by_role("heading", name="No runs to compare")).to_be_visible()
    watch.expect("status of 404")
    user.goto(f"{connection.url}/compare?runs=999999")
    expect(user.get_by_role("status").filter(has_text="999999")).to_be_visible()
