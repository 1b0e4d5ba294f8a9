"""The list of runs: the newest first, searched, narrowed by state, selected to be compared."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.servers import database_url
from master.models import Run, open_database
from mlbench import ApiClient
from mlbench.home import Connection
from tests.conftest import PrometheusServer, free_port
from tests.serving import serve_master
from tests.stacks import order_steps
from tests.web import made
from tests.web.conftest import sign_in, stop_runs


@pytest.fixture(scope="module")
def listed(
    shared_prometheus: PrometheusServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """A master with six runs that have ended, with hostile names of theirs."""
    folder = tmp_path_factory.mktemp("listed")
    database = open_database(database_url(folder))
    made.make_runs(5)
    goal = {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False}
    run = made.make_ended_run(
        name="reached", benchmark="digits", goal=goal, num_workers=4, goal_train_seconds=12.5
    )
    Run.update(goal_reached_at=run.finished_at).execute()
    made.make_ended_run(
        name="own",
        benchmark="",
        image="<b>image</b>",
        command="<i>",
        state="FAILED",
        reason="<u>no",
    )
    database.close()
    with serve_master(folder, free_port(), shared_prometheus.url) as connection:
        yield connection


@pytest.fixture
def runs(page: Page, listed: Connection) -> Locator:
    """The rows of runs, below the heads of columns."""
    sign_in(page, listed, "/runs")
    rows = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(rows).to_have_count(7)
    return rows


def test_the_newest_is_first_and_says_how_it_went(runs: Locator) -> None:
    expect(runs.first).to_contain_text("own")
    expect(runs.last).to_contain_text("number-0")
    reached = runs.filter(has_text="reached")
    for said in ("FINISHED", "digits", "4", "97 % in 12.5 s", "1 h 00 min"):
        expect(reached).to_contain_text(said)
    # What users name is text, whatever it says.
    for said in ("<i>", "FAILED", "<u>no"):
        expect(runs.first).to_contain_text(said)


def test_search_and_state_narrow_the_list_and_stay_in_the_address(runs: Locator) -> None:
    page = runs.page
    page.get_by_label("State").select_option("FAILED")
    expect(runs).to_have_count(3)
    page.get_by_label("Search").fill("number")
    expect(runs).to_have_count(2)
    assert "state=FAILED" in page.url
    page.reload()
    expect(runs).to_have_count(2)
    page.get_by_label("Search").fill("no such run")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_label("State").select_option("")
    expect(runs).to_have_count(7)


def test_two_or_more_are_compared(runs: Locator) -> None:
    page = runs.page
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    page.get_by_label("Select run 2", exact=True).check()
    expect(compare).to_be_disabled()
    page.get_by_label("Select run 6", exact=True).check()
    compare.click()
    page.wait_for_url("**/compare?runs=2,6")
    page.goto("about:blank")


@pytest.mark.usefixtures("no_run_left")
def test_what_others_start_comes_by_itself(
    user: Page, connection: Connection, client: ApiClient
) -> None:
    user.goto(f"{connection.url}/runs")
    expect(user.get_by_role("button", name="New run").first).to_be_visible()
    run = order_steps(client, "by-others", steps=6000, rate=100)
    row = user.get_by_role("row").filter(has=user.get_by_label(f"Select run {run.id}", exact=True))
    expect(row).to_contain_text("STARTED")
    box = user.get_by_label(f"Select run {run.id}", exact=True)
    box.check()
    stop_runs(client)
    expect(row).to_contain_text("STOPPED")
    # What the user has done to a row is still there.
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    expect(row).to_contain_text(re.compile("steps"))
