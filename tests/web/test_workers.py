"""The page of workers: what each of them is and does, now."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.servers import database_url
from mlbench import ApiClient
from mlbench.local.home import StackConnection
from mlbench_master.database.models import open_database
from tests.conftest import PrometheusServer, free_port
from tests.support.serving import serve_master
from tests.support.stacks import order_steps
from tests.web.conftest import sign_in, stop_runs
from tests.web.watch import Watch

_FIRST, _SECOND = "local-mlbench-worker-0", "local-mlbench-worker-1"


@pytest.mark.usefixtures("no_run_left")
def test_each_worker_says_what_it_is_uses_and_works_on(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    user.goto(f"{connection.url}/")
    for name in (_FIRST, _SECOND):
        worker = user.get_by_role("article", name=name)
        for text in ("Running", "127.0.0.1", "idle", "CPU", "Memory", "Network"):
            expect(worker).to_contain_text(text, ignore_case=True)
    # The page finds out by itself what is new.
    run = order_steps(client, "on-workers", steps=6000, rate=100)
    expect(worker.get_by_text("rank 1")).to_be_visible()
    worker.get_by_role("link", name=re.compile(f"Run {run.id}")).click()
    user.wait_for_url(f"{connection.url}/runs/{run.id}")
    user.go_back()
    worker.get_by_role("link", name=_SECOND).click()
    user.wait_for_url(f"{connection.url}/workers/{_SECOND}")
    expect(user.get_by_text("Working on")).to_be_visible()
    expect(user.get_by_text("No firing alerts.")).to_be_visible()
    expect(user.get_by_role("row", name=re.compile("on-workers STARTED"))).to_be_visible()
    expect(user.locator("#resources-chart")).to_be_visible()
    user.go_back()
    stop_runs(client)
    expect(worker.get_by_text("rank 1")).to_be_hidden()


@pytest.mark.slow
def test_an_empty_installation_says_what_to_do(
    page: Page, tmp_path: Path, shared_prometheus: PrometheusServer
) -> None:
    open_database(database_url(tmp_path)).close()
    with serve_master(tmp_path, free_port(), shared_prometheus.url) as connection:
        sign_in(page, connection, "/")
        expect(page.get_by_text("No workers")).to_be_visible()
        expect(page.get_by_text("mlbench up --workers 2")).to_be_visible()
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
    user.goto(f"{connection.url}/")
    expect(user.get_by_role("alert")).to_contain_text("it is <b>wrong</b>")
    user.unroute("**/api/pods/")
    user.get_by_role("button", name="Retry").click()
    expect(user.get_by_role("article")).to_have_count(2)
    expect(user.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("path", ["/", "/runs"])
def test_alerts_about_the_stack_itself_are_shown(
    user: Page, connection: StackConnection, path: str
) -> None:
    common = {"name": "MLBenchDiskFull", "severity": "critical", "since": "2026-11-22T14:00:00Z"}
    place = {"runbook": "docs/runbooks/MLBenchDiskFull.md", "rank": None, "pod": None}
    texts = {None: "Disk full: 0 B are free in /<data>.", 1: "of a run"}
    alerts = [{**common, **place, "run_id": run, "text": text} for run, text in texts.items()]
    user.route("**/api/alerts/", lambda route: route.fulfill(json=alerts))
    user.goto(connection.url + path)
    shown = user.get_by_role("list", name="Alerts").get_by_role("listitem")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("MLBenchDiskFull Disk full: 0 B are free in /<data>.")
    runbook = shown.get_by_role("link", name="Runbook")
    expect(runbook).to_have_attribute("href", f"/{place['runbook']}")
    alerts.clear()
    expect(shown).to_have_count(0)
