"""The page of workers: state and current activity of each worker."""

import re

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.support.stacks import order_steps
from tests.web.conftest import Filled, sign_in, stop_runs
from tests.web.watch import Watch

_FIRST, _SECOND = "local-mlbench-worker-0", "local-mlbench-worker-1"


@pytest.mark.usefixtures("no_run_left")
def test_workers_show_their_state_resources_and_current_run(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    user.goto(f"{connection.url}/workers")
    for name in (_FIRST, _SECOND):
        worker = user.get_by_role("row", name=re.compile(f"^{name}"))
        expect(worker).to_contain_text(re.compile("idle|exited"))
        expect(worker.get_by_role("img", name=re.compile("^CPU [0-9.]+ cores$"))).to_be_visible()
        expect(worker).to_contain_text("MB")
    # The page updates without a reload.
    run = order_steps(client, "on-workers", steps=6000, rate=100)
    expect(worker.get_by_text("rank 1")).to_be_visible()
    expect(
        user.get_by_role("link", name=f"{_SECOND}: running, run {run.id}, rank 1")
    ).to_be_visible()
    worker.get_by_role("link", name=re.compile(f"run {run.id}")).click()
    user.wait_for_url(f"{connection.url}/runs/{run.id}")
    user.go_back()
    worker.get_by_role("link", name=_SECOND).click()
    user.wait_for_url(f"{connection.url}/workers/{_SECOND}")
    expect(user.get_by_text("running", exact=True).first).to_be_visible()
    expect(user.get_by_text("No firing alerts.")).to_be_visible()
    expect(user.get_by_role("row", name=re.compile("on-workers"))).to_be_visible()
    expect(user.locator("#resources-chart")).to_be_visible()
    user.go_back()
    stop_runs(client)
    expect(worker.get_by_text("rank 1")).to_be_hidden()


@pytest.mark.usefixtures("no_run_left")
def test_a_node_is_collapsed_and_expanded(user: Page, connection: StackConnection) -> None:
    user.goto(f"{connection.url}/workers")
    row = user.get_by_role("row", name=re.compile(f"^{_FIRST}"))
    expect(row).to_be_visible()
    node = user.locator(".node-row").get_by_role("button")
    expect(node).to_have_attribute("aria-expanded", "true")
    node.press("Enter")
    expect(row).to_be_hidden()
    expect(user.get_by_role("link", name=re.compile(f"^{_FIRST}: "))).to_be_visible()
    # A filter expands the nodes of matching workers.
    user.get_by_label("Filter").fill("worker-0")
    expect(row).to_be_visible()
    expect(user).to_have_url(re.compile("filter=worker-0"))


@pytest.mark.slow
def test_the_pages_of_an_empty_installation_suggest_commands(page: Page, filled: Filled) -> None:
    with filled() as connection:
        sign_in(page, connection, "/workers")
        expect(page.get_by_text("No workers")).to_be_visible()
        expect(page.get_by_text("mlbench up --workers 2")).to_be_visible()
        page.get_by_role("link", name="Home").click()
        expect(page.get_by_text("No results yet")).to_be_visible()
        expect(page.get_by_text("Workers start when a run needs them.")).to_be_visible()
        page.get_by_role("link", name="New run").click()
        expect(page.get_by_role("dialog", name="New run")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_text("No runs yet")).to_be_visible()
        expect(page.get_by_text("mlbench run digits --workers 2")).to_be_visible()
        page.goto("about:blank")


def test_errors_are_shown(user: Page, connection: StackConnection, watch: Watch) -> None:
    watch.expect("status of 400")
    refusal = {"status": 400, "message": "it is <b>wrong</b>"}
    user.route("**/api/pods/", lambda route: route.fulfill(status=400, json=refusal))
    user.goto(f"{connection.url}/workers")
    expect(user.get_by_role("alert")).to_contain_text("it is <b>wrong</b>")
    user.unroute("**/api/pods/")
    user.get_by_role("button", name="Retry").click()
    expect(user.locator("tbody tr:not(.node-row)")).to_have_count(2)
    expect(user.get_by_role("alert")).to_have_count(0)
