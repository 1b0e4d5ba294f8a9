"""The page of a benchmark set: what is left, what matters most, its plan and ledger."""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from benchmarks.servers import database_url
from mlbench.local.home import StackConnection
from mlbench_master.database.models import RunSet, open_database
from tests.conftest import PrometheusServer, free_port
from tests.support.serving import serve_master
from tests.web import made
from tests.web.conftest import section, sign_in

_SWEPT = [*product(("flat", "topk"), ("10", "100"), (1, 2, 3, 4))]


@pytest.fixture(scope="module")
def master(
    shared_prometheus: PrometheusServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackConnection]:
    """A master with a set of two exchanges and bandwidths, four times each; the last is to come."""
    folder = tmp_path_factory.mktemp("set")
    database = open_database(database_url(folder))
    slots: list[dict[str, Any]] = [
        {"num_workers": 2, "seed": seed, "swept": {"exchange": exchange, "bandwidth": bandwidth}}
        for exchange, bandwidth, seed in _SWEPT
    ]
    order = {"benchmark": "digits", "args": {"epochs": "3"}, "faults": "kill:every=15s"}
    of_set = {"order": order, "official": False, "until_percent": None, "created_at": time.time()}
    RunSet.create(name="grid", slots=slots, **of_set)
    for number, slot in enumerate(slots[:-1], 1):
        swept = slot["swept"]
        slow = 90 if swept["exchange"] == "flat" else 20
        seconds = slow - 0.1 * int(swept["bandwidth"]) + slot["seed"]
        fields = {"benchmark": "digits", "num_workers": 2, "target_train_seconds": seconds}
        in_set = {"set_name": "grid", "slot": number, "swept": swept}
        made.make_ended_run(name=f"grid-{number}", **fields, **in_set)
    database.close()
    with serve_master(folder, free_port(), shared_prometheus.url) as connection:
        yield connection


@pytest.mark.slow
def test_a_set_shows_what_matters_what_is_left_and_its_plan(
    page: Page, master: StackConnection
) -> None:
    sign_in(page, master, "/sets/grid")
    expect(section(page, "1 slot left: about 1 h 00 min")).to_contain_text(
        "15 of 16 slots have a run"
    )
    expect(page.locator("#order")).to_contain_text("fault injection: kill:every=15s")
    matters = section(page, "exchange matters most")
    rows = matters.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("exchange topk")
    expect(rows.nth(1)).to_contain_text("faster")
    picture = matters.get_by_role("img", name="15 runs over exchange, bandwidth")
    expect(picture.locator("polyline")).to_have_count(15)
    plan = section(page, "Plan and ledger")
    expect(plan.get_by_role("row")).to_have_count(17)
    expect(plan.get_by_role("row").last).to_contain_text("open")
    expect(page.get_by_role("link", name="Compare runs")).to_be_visible()
    plan.get_by_role("link", name="run 1", exact=True).click()
    page.get_by_role("link", name="Set grid").click()
    expect(matters).to_be_visible()


@pytest.mark.slow
def test_sets_are_listed_and_lead_to_their_runs_by_swept_values(
    page: Page, master: StackConnection
) -> None:
    sign_in(page, master, "/sets")
    row = page.get_by_role("row").filter(has_text="grid")
    expect(row).to_have_count(1)
    for text in ("exchange, bandwidth", "16", "15 of 16 slots have a run"):
        expect(row).to_contain_text(text)
    row.get_by_role("link", name="Groups").click()
    groups = page.locator("#groups tbody tr")
    expect(groups).to_have_count(4)
    expect(groups.first).to_contain_text("exchange=flat, bandwidth=10")
    page.get_by_role("link", name='swept="exchange=topk, bandwidth=100"').click()
    expect(page.get_by_role("link", name="exchange=topk, bandwidth=100, workers=2")).to_have_count(
        3
    )
