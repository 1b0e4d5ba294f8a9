"""The list of runs: the newest first, searched, narrowed by state, selected to be compared."""

import re

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.support.stacks import order_steps
from tests.web.conftest import section, sign_in
from tests.web.watch import Watch


def test_runs_are_listed_narrowed_and_compared(
    page: Page, watch: Watch, still: StackConnection
) -> None:
    sign_in(page, still, "/runs")
    runs = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(runs).to_have_count(8)
    expect(runs.last).to_contain_text("talker")
    reached = runs.filter(has_text="reached")
    for text in ("FINISHED", "digits", "4", "97 % in 12.5 s", "1 h 00 min"):
        expect(reached).to_contain_text(text)
    # What users name is text, whatever it says.
    for text in ("own", "<i>", "FAILED", "<u>no", "#8, run 3 of <b>lab"):
        expect(runs.first).to_contain_text(text)

    page.get_by_label("State", exact=True).select_option("FAILED")
    expect(runs).to_have_count(4)
    page.get_by_label("Search").fill("number")
    expect(runs).to_have_count(2)
    assert "state=FAILED" in page.url
    page.reload()
    expect(runs).to_have_count(2)
    page.get_by_label("Search").fill("no such run")
    expect(page.get_by_text("No matching runs")).to_be_visible()
    expect(page.get_by_text('Query read as: "no" and "such" and "run"')).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_label("State", exact=True).select_option("")
    expect(runs).to_have_count(8)

    watch.expect("status of 400")
    page.get_by_label("Search").fill("workers>=2 wrkers=1")
    expect(page.get_by_text("unknown field wrkers. Did you mean workers?")).to_be_visible()
    expect(runs.first).to_be_hidden()
    page.get_by_label("Search").fill("workers >= 2")
    expect(runs).to_have_count(2)
    page.get_by_label("More columns").fill("id, time_to_target")
    page.get_by_label("More columns").press("Enter")
    expect(runs.filter(has_text="reached").locator("[data-label=time_to_target]")).to_have_text(
        "12.5"
    )
    page.get_by_role("button", name="Workers").click()
    expect(page.get_by_role("columnheader", name="Workers")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(runs.first).to_contain_text("reached")
    assert "order=-workers" in page.url
    page.reload()
    expect(page.get_by_role("columnheader", name="time_to_target")).to_be_visible()
    expect(runs).to_have_count(2)
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Workers").click()
    page.get_by_role("button", name="Workers").click()
    expect(runs).to_have_count(8)


def test_runs_are_grouped_and_a_group_opens_its_runs(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs?query=id<8")
    page.get_by_label("Group by").fill("workers")
    page.get_by_label("Group by").press("Enter")
    groups = page.locator("#groups tbody tr")
    expect(groups).to_have_text([re.compile("^153,600"), re.compile("^21"), re.compile("^41")])
    expect(groups.last).to_contain_text("12.5")
    expect(page.get_by_role("status").first).to_have_text("7 of 8 runs in 3 groups")
    page.get_by_role("button", name="runs", exact=True).click()
    assert "group=workers" in page.url
    page.reload()
    expect(groups.first).to_contain_text("3,600")
    page.get_by_role("link", name="Runs of workers=4").click()
    expect(page.get_by_label("Search")).to_have_value("id<8 workers=4")
    expect(page.get_by_label("Select run")).to_have_count(1)


def test_columns_are_hidden_and_a_narrow_screen_sorts(page: Page, still: StackConnection) -> None:
    sign_in(page, still, "/runs?columns=id")
    page.get_by_text("Hide columns").click()
    page.get_by_label("Hide Benchmark").check()
    expect(page.get_by_role("columnheader", name="Benchmark")).to_be_hidden()
    assert "hide=code" in page.url
    page.reload()
    expect(page.get_by_role("columnheader", name="Outcome")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Benchmark")).to_be_hidden()
    expect(page.get_by_label("Sort by")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_label("Sort by").select_option("id ↑")
    expect(page.get_by_role("checkbox", name="Select run").first).to_have_value("1")
    assert "order=id" in page.url


def test_selected_runs_are_tagged_saved_and_compared(
    page: Page, watch: Watch, still: StackConnection
) -> None:
    sign_in(page, still, "/runs?columns=time_to_target")
    runs = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    page.get_by_label("Select run 2", exact=True).check()
    expect(compare).to_be_disabled()
    page.get_by_label("Select run 7", exact=True).check()
    watch.expect("status of 400")
    page.get_by_label("Tag for the selected runs").fill("two words")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("run 2: add_tags.0: must match")
    page.get_by_label("Tag for the selected runs").fill("tried")
    page.keyboard.press("Enter")
    expect(runs.get_by_role("link", name="tried")).to_have_count(2)
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    header, *lines = saved.value.path().read_text().splitlines()
    assert header.startswith("id,title,state,")
    assert header.endswith(",tags,time_to_target")
    assert [line.split(",")[0] for line in lines] == ["2", "7"]
    assert lines[1].endswith(",tried,12.5")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    compare.click()
    page.wait_for_url("**/compare?runs=2,7")


def test_an_imported_run_says_so_and_shows_nothing_of_this_installation(
    page: Page, still: StackConnection, watch: Watch
) -> None:
    watch.allow("502")  # of its archive, which was only made up
    sign_in(page, still, "/runs/8")
    expect(page.get_by_text("imported: run 3 of <b>lab, read only")).to_be_visible()
    expect(section(page, "Resources")).to_contain_text("Not available for imported runs")
    expect(section(page, "Delivery")).to_contain_text("In the archive")
    page.get_by_role("button", name="Download", exact=True).click()
    expect(page.get_by_role("link", name="Metrics (zip)")).to_be_visible()
    expect(page.get_by_role("link", name="Resource usage")).to_be_hidden()


@pytest.mark.slow
@pytest.mark.usefixtures("no_run_left")
def test_runs_of_others_appear_by_themselves(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    user.goto(f"{connection.url}/runs")
    expect(user.get_by_role("button", name="New run").first).to_be_visible()
    run = order_steps(client, "by-others", steps=6000, rate=100)
    row = user.get_by_role("row").filter(has=user.get_by_label(f"Select run {run.id}", exact=True))
    expect(row).to_contain_text("STARTED")
    box = user.get_by_label(f"Select run {run.id}", exact=True)
    box.check()
    user.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped")
    # What the user has done to a row is still there.
    expect(box).to_be_checked()
    expect(row).to_contain_text(re.compile("steps"))
    user.get_by_role("button", name="Delete").click()
    user.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
