"""The list of runs: order, search, filters, columns, and selection."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.support.stacks import order_steps
from tests.web.conftest import section, sign_in
from tests.web.watch import Watch


def _rows(page: Page) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("checkbox"))


def test_a_printed_list_has_rows_and_headers(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs")
    expect(_rows(page)).to_have_count(8)
    page.set_viewport_size({"width": 794, "height": 1123})
    page.emulate_media(media="print")
    table = page.get_by_role("group", name="Table of runs")
    expect(table.get_by_role("columnheader", name="Outcome")).to_be_visible()
    expect(table.get_by_role("link", name="talker")).to_be_visible()
    expect(page.get_by_role("checkbox").first).to_be_hidden()
    expect(page.get_by_role("button", name="New run")).to_be_hidden()


def test_runs_are_listed_and_filtered(page: Page, watch: Watch, still: StackConnection) -> None:
    sign_in(page, still, "/runs")
    runs, box = _rows(page), page.get_by_label("Filter", exact=True)
    expect(runs).to_have_count(8)
    expect(runs.last).to_contain_text("talker")
    reached = runs.filter(has_text="reached")
    for text in ("#7", "97 % in 12.5 s", "4", "12.5 s"):
        expect(reached).to_contain_text(text)
    # Names given by users are shown as text, not as markup.
    expect(runs.first).to_contain_text("own")
    expect(runs.first.get_by_text("failed")).to_have_attribute("title", "<u>no")
    expect(runs.first.get_by_role("rowheader")).to_have_attribute("title", "own\nrun 3 of <b>lab")

    box.fill("number")
    expect(runs).to_have_count(5)
    box.press("Enter")
    page.get_by_label("Filter", exact=True).type("sta")
    page.get_by_role("option", name="state").click()
    box.press("ArrowDown")
    box.press("Enter")
    page.get_by_role("option", name="FAILED").click()
    expect(runs).to_have_count(2)
    assert "query=number+state%3DFAILED" in page.url
    page.reload()
    expect(runs).to_have_count(2)
    box.fill("no such run")
    expect(page.get_by_text("No matching runs")).to_be_visible()
    expect(page.get_by_text('"number" and state=FAILED and "no" and "such"')).to_be_visible()
    box.fill("")
    page.get_by_role("button", name="Remove number").click()
    expect(runs).to_have_count(4)
    box.press("Backspace")
    expect(box).to_have_value("state=FAILED")
    box.fill("")
    expect(runs).to_have_count(8)

    watch.expect("status of 400")
    box.fill("workers>=2 wrkers=1")
    expect(page.get_by_text("unknown field wrkers. Did you mean workers?")).to_be_visible()
    expect(runs.first).to_be_hidden()
    box.fill("workers >= 2")
    expect(runs).to_have_count(2)


def test_columns_are_selected_moved_resized_and_pinned(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs?columns=outcome,workers&side=closed")
    heads, runs = page.get_by_role("columnheader"), _rows(page)
    expect(heads).to_have_text(
        ["Select", "Shown in the charts", re.compile("Run"), "Outcome", "Workers"]
    )
    page.get_by_role("button", name="Columns").click()
    panel = page.get_by_role("dialog", name="Columns")
    panel.get_by_label("Find a field").fill("time_to")
    panel.get_by_role("checkbox", name="Time to target").check()
    expect(runs.filter(has_text="reached").locator("[data-key=time_to_target]")).to_have_text(
        "12.50 s"
    )
    panel.get_by_label("Find a field").fill("")
    panel.get_by_role("button", name="Pin Workers").click()
    expect(heads.nth(3)).to_have_text("Workers")
    # Columns can also be moved by keyboard.
    panel.get_by_role("checkbox", name="Time to target").press("Alt+ArrowUp")
    panel.get_by_role("checkbox", name="Time to target").press("Alt+ArrowUp")
    assert "columns=time_to_target,outcome,workers" in page.url
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    heads.filter(has_text="Outcome").drag_to(heads.filter(has_text="Time to target"))
    assert "columns=outcome,time_to_target,workers" in page.url

    grip = heads.filter(has_text="Outcome").locator(".grip")
    width = "(cell) => cell.offsetWidth"
    before = heads.filter(has_text="Outcome").evaluate(width)
    box = grip.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + 64, box["y"] + 4, steps=3)
    page.mouse.up()
    assert heads.filter(has_text="Outcome").evaluate(width) == pytest.approx(before + 60, abs=2)

    page.get_by_role("button", name="Workers").click()
    expect(heads.filter(has_text="Workers")).to_have_attribute("aria-sort", "descending")
    expect(runs.first).to_contain_text("reached")
    assert "order=-workers" in page.url
    # The browser remembers the columns for a URL without them.
    page.goto(f"{still.url}/runs?side=closed")
    expect(heads.nth(5)).to_have_text("Time to target")
    assert heads.filter(has_text="Outcome").evaluate(width) == pytest.approx(before + 60, abs=2)
    page.get_by_role("button", name="Columns").click()
    panel.get_by_role("button", name="Reset").click()
    expect(heads.filter(has_text="Goodput")).to_be_visible()


def test_runs_are_grouped_and_a_group_links_to_its_runs(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs?query=id<8&side=closed")
    page.get_by_role("button", name="Group by").click()
    page.get_by_role("dialog", name="Group by").get_by_label("Workers").check()
    page.keyboard.press("Escape")
    groups = page.locator("#runs tbody tr")
    expect(groups).to_have_text([re.compile("^15"), re.compile("^21"), re.compile("^41")])
    expect(groups.last).to_contain_text("12.5")
    expect(page.get_by_role("status").first).to_have_text("7 of 8 runs in 3 groups")
    page.get_by_role("button", name="Runs", exact=True).click()
    assert "group=workers" in page.url
    page.reload()
    expect(groups.first).to_contain_text("60.00 min")
    page.get_by_role("link", name="Runs of workers=4").click()
    expect(page.get_by_role("button", name="Edit workers=4")).to_be_visible()
    expect(page.get_by_label("Select run")).to_have_count(1)


def test_a_narrow_screen_shows_two_lines_per_run_and_sorts(
    page: Page, still: StackConnection
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    sign_in(page, still, "/runs")
    runs = _rows(page)
    workers = runs.filter(has_text="reached").locator("[data-key=workers]")
    expect(workers).to_have_text("4")
    title = "(cell) => getComputedStyle(cell, '::before').content"
    assert workers.evaluate(title) == '"Workers"'
    expect(runs.nth(6)).to_be_in_viewport(ratio=1)
    page.get_by_label("Sort by").select_option("Id ↑")
    expect(page.get_by_role("checkbox", name="Select run").first).to_have_value("1")
    assert "order=id" in page.url


def test_selected_runs_are_tagged_saved_and_compared(
    page: Page, watch: Watch, still: StackConnection
) -> None:
    sign_in(page, still, "/runs?columns=time_to_target,id")
    runs, bar = _rows(page), page.get_by_role("region", name="Selected runs")
    expect(runs).to_have_count(8)
    expect(bar).to_be_hidden()
    page.get_by_label("Select run 2", exact=True).check()
    expect(bar.get_by_role("button", name="Compare")).to_be_disabled()
    page.get_by_label("Select run 7", exact=True).check()
    watch.expect("status of 400")
    page.get_by_label("Tag for the selected runs").fill("two words")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("run 2: add_tags.0: must match")
    page.get_by_label("Tag for the selected runs").fill("tried")
    page.keyboard.press("Enter")
    expect(runs.get_by_role("link", name="tried")).to_have_count(2)
    with page.expect_download() as saved:
        bar.get_by_role("button", name="Export").click()
    header, *lines = saved.value.path().read_text().splitlines()
    assert header.startswith("id,title,state,")
    assert header.endswith(",target_train_seconds,tags,best")
    assert [line.split(",")[0] for line in lines] == ["2", "7"]
    assert ",12.5,tried," in lines[1]
    expect(bar.get_by_role("button", name="Stop")).to_be_hidden()
    bar.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?runs=2,7")


def _colours(page: Page) -> dict[str, str]:
    eyes = page.get_by_role("button", name=re.compile("in the charts$"))
    read = "(eyes) => eyes.map((e) => [e.ariaLabel, e.style.getPropertyValue('--series')])"
    return {name.split()[1]: colour for name, colour in eyes.evaluate_all(read)}


def test_the_colours_of_runs_are_kept_in_the_list_and_the_url(
    page: Page, still: StackConnection
) -> None:
    sign_in(page, still, "/runs")
    expect(_rows(page)).to_have_count(8)
    # Without a selection, the charts show the first runs.
    assert len(_colours(page)) == 8
    for run in (5, 3, 7):
        page.get_by_label(f"Select run {run}", exact=True).check()
    page.get_by_label("Select run 3", exact=True).uncheck()
    expected = {"5": "var(--series-0)", "7": "var(--series-2)"}
    assert _colours(page) == expected
    assert "selected=5,-,7" in page.url
    page.reload()
    expect(page.get_by_text("2 selected")).to_be_visible()
    assert _colours(page) == expected
    side = page.get_by_role("complementary", name="Charts of the runs")
    expect(side).to_be_visible()
    eye = page.get_by_role("button", name="Run 7 in the charts")
    eye.click()
    expect(eye).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Charts", exact=True).click()
    expect(side).to_be_hidden()
    assert "side=closed" in page.url
    page.get_by_label("Select run 6", exact=True).check()
    page.get_by_label("Select run 2", exact=True).click(modifiers=["Shift"])
    expect(page.locator("#runs input:checked")).to_have_count(6)


def test_keys_select_runs_and_back_restores_the_focus(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs")
    expect(_rows(page)).to_have_count(8)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter", exact=True)).to_be_focused()
    for key in ("Escape", "j", "j", "x", "j", "k", "k", "x", "j"):
        page.keyboard.press(key)
    expect(page.get_by_text("2 selected")).to_be_visible()
    link = page.get_by_role("link", name="reached")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/7")
    page.go_back()
    expect(link).to_be_focused()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("2 selected")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Next, previous run")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_page_of_an_imported_run_shows_its_origin_and_no_resources(
    page: Page, still: StackConnection, watch: Watch
) -> None:
    watch.allow("502")  # the imported run has no archive file
    sign_in(page, still, "/runs/8")
    expect(page.get_by_text("imported: run 3 of <b>lab, read only")).to_be_visible()
    page.get_by_role("tab", name="Ranks and time").click()
    expect(section(page, "Resources")).to_contain_text("Not available for imported runs")
    page.get_by_role("tab", name="Record").click()
    expect(section(page, "Delivery")).to_contain_text("No missing samples")
    page.get_by_role("button", name="Download", exact=True).click()
    expect(page.get_by_role("link", name="Metrics (zip)")).to_be_visible()
    expect(page.get_by_role("link", name="Resource usage")).to_be_hidden()


@pytest.mark.slow
@pytest.mark.usefixtures("no_run_left")
def test_runs_of_other_users_appear_without_a_reload(
    user: Page, connection: StackConnection, client: ApiClient, watch: Watch
) -> None:
    # The charts may request the run during its deletion.
    watch.allow("status of 404")
    user.goto(f"{connection.url}/runs")
    expect(user.get_by_role("button", name="New run").first).to_be_visible()
    run = order_steps(client, "by-others", steps=6000, rate=100)
    row = user.get_by_role("row").filter(has=user.get_by_label(f"Select run {run.id}", exact=True))
    expect(row).to_contain_text("running")
    box = user.get_by_label(f"Select run {run.id}", exact=True)
    box.check()
    user.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped")
    # An update keeps the selection of the row.
    expect(box).to_be_checked()
    user.get_by_role("button", name="Delete").click()
    user.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
