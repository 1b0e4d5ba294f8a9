"""The home page: current activity, and the state of the installation."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.support.stacks import order_steps, run_to_end
from tests.web.conftest import poll_now, section, stop_runs
from tests.web.watch import Watch

_FIRST = "local-mlbench-worker-0"


def _alert(**fields: Any) -> dict[str, Any]:
    runbook = "docs/runbooks/MLBenchDiskFull.md"
    common = {"name": "MLBenchDiskFull", "severity": "critical", "since": "2026-11-22T14:00:00Z"}
    return {**common, "runbook": runbook, "rank": None, "pod": None, "run_id": None, **fields}


@pytest.mark.usefixtures("no_run_left")
def test_the_home_page_shows_an_active_run_a_queue_and_results(
    user: Page, connection: StackConnection, client: ApiClient, watch: Watch
) -> None:
    user.goto(connection.url)
    expect(section(user, "No active run")).to_contain_text("The queue is empty.")
    run = order_steps(client, "ahead", steps=6000, rate=100)
    waiting = order_steps(client, "behind", steps=10, rate=100, queue=True)
    # The page updates without a reload.
    card = section(user, f"Run {run.id}")
    expect(card).to_contain_text(f"ahead#{run.id}")
    expect(card).to_contain_text("running")
    expect(card.get_by_text(re.compile(r"^[01] · [0-9.]+\D$"))).to_be_visible()
    expect(card.get_by_role("img", name=re.compile("Training loss"))).to_be_visible()
    watch.expect("502")
    failure = {"status": 502, "message": "samples were lost"}
    user.route("**/result/", lambda route: route.fulfill(status=502, json=failure))
    expect(card.get_by_role("alert")).to_have_text("Figures not known: samples were lost")
    user.unroute("**/result/")
    expect(card).not_to_contain_text("Figures not known")
    queue = section(user, "Queue")
    expect(queue.get_by_role("listitem")).to_contain_text(re.compile("behind.*2 workers"))
    square = user.get_by_role("link", name=re.compile(f"^{_FIRST}: running, run {run.id}"))
    expect(square).to_have_attribute("href", f"/workers/{_FIRST}")
    card.get_by_role("button", name="Stop").click()
    user.get_by_role("dialog").get_by_role("button", name="Stop").click()
    results = section(user, "Latest results")
    expect(results.get_by_role("listitem").filter(has_text="ahead").first).to_contain_text(
        "stopped"
    )
    done = run_to_end(client, client.get_run(waiting.id).result().value)
    expect(results.get_by_role("listitem").first).to_contain_text(f"behind#{done.id}")
    expect(card).to_have_count(0)


def test_a_result_matches_the_api(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    stop_runs(client)
    run = run_to_end(client, order_steps(client, "figures", steps=300, rate=200))
    goodput = client.get_goodput(run.id).result().value.share
    user.goto(connection.url)
    row = section(user, "Latest results").get_by_role("listitem").filter(has_text=f"#{run.id}")
    assert goodput is not None
    expect(row).to_contain_text(f"goodput {round(100 * goodput)} %")
    expect(row).to_contain_text("completed")
    row.get_by_role("link").click()
    user.wait_for_url(f"{connection.url}/runs/{run.id}")


def test_the_installation_matches_the_api(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    user.goto(connection.url)
    installation = section(user, "Installation")
    expect(installation).to_contain_text(re.compile("SQLite, [0-9.]+ [kM]B"))
    storage = client.get_storage().result().value
    assert storage.prometheus
    expect(installation).to_contain_text(storage.prometheus.version.partition("+")[0])
    expect(installation).to_contain_text(re.compile("Missing samples0 of [0-9,]+"))


def test_missing_samples_and_an_unreachable_prometheus_are_marked(
    user: Page, connection: StackConnection
) -> None:
    storage = {
        "prometheus": None,
        "database": {"kind": "postgresql", "bytes": 41_000_000},
        "archives": {"archives": 212, "bytes": 380_000_000, "is_remote": True},
        "recorded_samples": 48_120_554,
        "missing_samples": 12,
    }
    user.route("**/api/info/storage/", lambda route: route.fulfill(json=storage))
    user.goto(connection.url)
    installation = section(user, "Installation")
    for text in ("PostgreSQL, 41 MB", "212, 380 MB in an object store"):
        expect(installation).to_contain_text(text)
    marked = installation.locator(".bad-text")
    expect(marked).to_have_text(["does not respond", "12 of 48,120,554"])


def test_alerts_are_counted_on_each_page(user: Page, connection: StackConnection) -> None:
    alerts = [
        _alert(text="Disk full: 0 B are free in /<data>."),
        _alert(name="MLBenchTargetDown", severity="warning", text="b"),
    ]
    user.route("**/api/alerts/", lambda route: route.fulfill(json=alerts))
    user.goto(f"{connection.url}/runs")
    badge = user.get_by_role("link", name="2 alerts")
    expect(badge).to_have_attribute("data-severity", "critical")
    alerts.pop(0)
    poll_now(user)
    expect(user.get_by_role("link", name="1 alert", exact=True)).to_have_attribute(
        "data-severity", "warning"
    )
    alerts.clear()
    poll_now(user)
    expect(user.locator("#alert-count")).to_be_hidden()


def test_a_firing_alert_links_to_its_runbook(user: Page, connection: StackConnection) -> None:
    texts = ["Run 7 (<b>): rank 1 is late: it computes.", "Disk full: 0 B are free in /<data>."]
    late = _alert(name="MLBenchStraggler", severity="warning", run_id=7, text=texts[0])
    alerts = [late, {**late, "rank": 0}, _alert(text=texts[1])]
    user.route("**/api/alerts/", lambda route: route.fulfill(json=alerts))
    user.goto(connection.url)
    shown = user.get_by_role("list", name="Alerts").get_by_role("listitem")
    expect(shown).to_have_count(2)
    # Critical alerts come first.
    expect(shown.nth(0).get_by_text("Disk full", exact=True)).to_be_visible()
    expect(shown.nth(0)).to_contain_text("0 B are free in /<data>.")
    to_do = shown.nth(0).get_by_role("link", name="What to do")
    expect(to_do).to_have_attribute("href", "/docs/runbooks/MLBenchDiskFull.md")
    expect(shown.nth(1)).to_contain_text("Run 7 (<b>): rank 1 is late and 1 more like it")
    expect(shown.nth(1).get_by_role("link", name="Run 7")).to_have_attribute("href", "/runs/7")
    alerts.clear()
    poll_now(user)
    expect(user.get_by_text("None. All is well.")).to_be_visible()


def test_sections_show_errors_of_loading(
    user: Page, connection: StackConnection, watch: Watch
) -> None:
    watch.expect("500")
    failure = {"status": 500, "message": "out of order"}
    for path in ("alerts", "info/storage", "pods"):
        user.route(f"**/api/{path}/", lambda route: route.fulfill(status=500, json=failure))
    user.goto(connection.url)
    for name in ("Firing alerts", "Installation", "Workers"):
        expect(section(user, name)).to_contain_text("Not known: out of order")


def test_commands_can_be_copied_and_the_navigation_lists_the_pages(
    user: Page, connection: StackConnection
) -> None:
    user.goto(connection.url)
    user.context.grant_permissions(["clipboard-read", "clipboard-write"])
    user.get_by_role("button", name="Copy the command for a benchmark").click()
    user.wait_for_function(
        "async (text) => (await navigator.clipboard.readText()) === text",
        arg="mlbench run digits --workers 2",
    )
    pages = user.get_by_role("navigation", name="Pages").get_by_role("link")
    expect(pages).to_have_text(["Home", "Runs", "Sets", "Workers"])
    expect(pages.first).to_have_attribute("aria-current", "page")
