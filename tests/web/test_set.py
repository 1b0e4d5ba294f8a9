"""The page of a benchmark set: its best combination, metrics, verdict, plan and ledger."""

import re
import time
from collections.abc import Iterator
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from playwright.sync_api import Page, expect

from benchmarks.servers import database_url
from mlbench import ApiClient
from mlbench.contract.comparisons import Comparison
from mlbench.local.home import StackConnection
from mlbench_master.database.models import Run, RunSet, open_database
from tests.conftest import PrometheusServer, free_port
from tests.support.known import known
from tests.support.serving import serve_master
from tests.web import made
from tests.web.conftest import Filled, section, sign_in

_ARCHIVES = Path(__file__).parents[2] / "docs" / "archives" / "results-exchanges.mlbench"
# Three runs each of ddp and local-sgd at 5 and 20 Mbit/s.
_CELL = re.compile(r"-(c[1267]-r[123])-\d+\.mlbench$")
_SWEPT = [*product(("flat", "topk"), ("10", "100"), (1, 2, 3, 4))]


@pytest.fixture(scope="module")
def master(filled: Filled) -> Iterator[StackConnection]:
    """A master with a set of two exchanges at two bandwidths, with 15 of 16 runs done."""
    with filled(_make_grid) as connection:
        yield connection


def _make_grid() -> None:
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
    command = {"custom_image_name": "local", "custom_image_command": "/bin/train --epochs 4"}
    rates = ("0.05", "0.2")
    slots = [{"num_workers": 1, "seed": 1, "swept": {"lr": rate}} for rate in rates]
    RunSet.create(name="own-code", slots=slots, **(of_set | {"order": command}))
    for number, (rate, loss) in enumerate(zip(rates, (1.4168, 0.2898), strict=True), 1):
        in_set = {"set_name": "own-code", "slot": number, "swept": {"lr": rate}}
        metrics = {"loss": {"min": loss, "max": 2.3, "last": loss}}
        made.make_ended_run(name=f"own-{number}", figures={"metrics": metrics}, **in_set)


@pytest.fixture(scope="module")
def measured(
    shared_prometheus: PrometheusServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StackConnection]:
    """A master with a complete imported set: two exchanges at two bandwidths, three runs each."""
    folder = tmp_path_factory.mktemp("measured")
    with serve_master(folder, free_port(), shared_prometheus.url) as connection:
        with ZipFile(_ARCHIVES) as archives, ApiClient.from_connection(connection) as client:
            found = {
                match[1]: name for name in archives.namelist() if (match := _CELL.search(name))
            }
            for name in found.values():
                client.import_archive(BytesIO(archives.read(name)))
        database = open_database(database_url(folder))
        slots: list[dict[str, Any]] = []
        for run in Run.select().order_by(Run.id):
            slots.append({"num_workers": 2, "seed": run.seed, "swept": run.swept})
            in_set = {"set_name": "exchanges", "slot": len(slots)}
            Run.update(**in_set).where(Run.id == run.id).execute()
        of_set = {"order": {"benchmark": "digits"}, "official": False, "until_percent": None}
        RunSet.create(name="exchanges", slots=slots, created_at=time.time(), **of_set)
        database.close()
        yield connection


@pytest.fixture
def comparison(measured: StackConnection) -> Comparison:
    """The comparison of the measured set's runs from the API."""
    with ApiClient.from_connection(measured) as client:
        return client.compare([*range(1, 13)]).result().value


@pytest.mark.slow
def test_the_best_combination_of_a_set_matches_the_api(
    page: Page, measured: StackConnection, comparison: Comparison
) -> None:
    sign_in(page, measured, "/sets/exchanges")
    fastest = known(comparison.findings.fastest)
    best = comparison.groups[fastest.group]
    seconds = known(best.training_seconds_to_target)
    title = page.locator("#answer-title")
    expect(title).to_contain_text(
        f"Fastest: exchange {best.swept['exchange']}, bandwidth {best.swept['bandwidth']}"
    )
    expect(title.locator("b")).to_have_text(f"{seconds.mean:.2f} s")
    expect(title).to_contain_text(f"95 % {seconds.mean_low:.2f} to {seconds.mean_high:.2f} s")
    chips = page.locator("#answer-chips").get_by_role("listitem")
    expect(chips.first).to_have_text("Comparable")
    expect(chips.nth(1)).to_contain_text("the slowest")
    expect(page.locator("#progress")).to_have_text("finished · 12 of 12 slots done")

    # Each cell has a mean with its interval, and the best cell is marked.
    cells = section(page, "Time to target of each combination").locator("a.cell")
    expect(cells).to_have_count(4)
    marked = section(page, "Time to target of each combination").locator("[data-best]")
    expect(marked).to_have_count(1)
    expect(marked).to_have_attribute("data-heat", "6")
    name = f"exchange {best.swept['exchange']}, bandwidth {best.swept['bandwidth']}: "
    expect(marked).to_have_accessible_name(re.compile(f"^{name}.+, 95 % .+ to .+, 3 runs$"))

    # Throughput is the other metric of the table.
    page.get_by_text("Throughput", exact=True).click()
    rates = section(page, "Throughput of each combination").locator("a.cell")
    expect(rates.first).to_contain_text("samples/s")

    # A cell links to its runs.
    page.get_by_text("Time to target", exact=True).first.click()
    marked.click()
    page.wait_for_url("**/runs?query=*")
    for run_id in best.run_ids:
        expect(page.locator(f'a[href="/runs/{run_id}"]').first).to_be_visible()


@pytest.mark.slow
def test_a_set_shows_its_verdict_curves_and_results(
    page: Page, measured: StackConnection, comparison: Comparison
) -> None:
    sign_in(page, measured, "/sets/exchanges")
    verdict = section(page, "Verdict")
    expect(verdict).to_contain_text("Comparable")
    # Swept settings do not make the runs incomparable.
    expect(verdict).to_contain_text("the same data, target and batch size")
    expect(verdict).to_contain_text(re.compile(r"of 24 ranks"))
    expect(verdict).to_contain_text("equal: MLBench")
    curves = section(page, "Validation accuracy over training time")
    expect(curves.get_by_role("button", name="exchange ddp, bandwidth 5")).to_be_visible()
    expect(curves.get_by_text("Validation accuracy over")).to_have_attribute(
        "title", "val_global_Prec@1"
    )
    plan = section(page, "Plan and ledger")
    expect(plan.get_by_role("row")).to_have_count(13)
    times = [known(result.time_to_target).training_seconds for result in comparison.results]
    shown = plan.locator("tbody tr").first
    expect(shown).to_contain_text(f"{known(times[0]):.2f} s")
    expect(shown).to_contain_text("target reached")
    expect(page.get_by_role("link", name="Compare runs")).to_be_visible()
    # The list of runs begins with the fastest one.
    plan.get_by_role("link", name="Open as list").click()
    cells = page.locator('#runs td[data-key="time_to_target"]')
    expect(cells).to_have_count(12)
    expect(cells.first).to_contain_text(f"{min(map(known, times)):.2f} s")


@pytest.mark.slow
def test_a_set_shows_importances_the_remaining_time_and_its_plan(
    page: Page, master: StackConnection
) -> None:
    sign_in(page, master, "/sets/grid")
    expect(page.locator("#progress")).to_have_text("running · 15 of 16 slots done")
    about = page.locator("#about")
    for text in (
        "bandwidth",
        "fault injection: kill:every=15s",
        "about 1 h 00 min left",
    ):
        expect(about).to_contain_text(text)
    expect(page.get_by_role("heading", name="No run has a result yet")).to_be_visible()
    matters = section(page, "What matters most")
    rows = matters.get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("exchange topk")
    expect(rows.first).to_contain_text("it is faster")
    expect(rows.first.get_by_role("img")).to_have_accessible_name(re.compile("95 % .+ to .+"))
    plan = section(page, "Plan and ledger")
    expect(plan.get_by_role("row")).to_have_count(17)
    expect(plan.get_by_role("row").last).to_contain_text("open")
    plan.get_by_role("link", name="#1", exact=True).click()
    page.get_by_role("link", name="grid", exact=True).click()
    expect(matters).to_be_visible()


def test_a_set_without_a_target_shows_last_values(page: Page, master: StackConnection) -> None:
    sign_in(page, master, "/sets/own-code")
    about = page.locator("#about")
    expect(about).to_have_text(re.compile(r"^/bin/train --epochs 4 · lr · 1 worker · 1 seed · reg"))
    expect(page.get_by_role("heading", name="Last values of each combination")).to_be_visible()
    rows = page.get_by_role("region", name="Last values of each combination").get_by_role("row")
    expect(rows).to_have_text(["CombinationLoss", "lr 0.05, 1 worker1.42", "lr 0.2, 1 worker0.29"])


@pytest.mark.slow
def test_the_list_of_sets_links_to_runs_grouped_by_swept_values(
    page: Page, master: StackConnection
) -> None:
    sign_in(page, master, "/sets")
    row = page.get_by_role("row").filter(has_text="grid")
    expect(row).to_have_count(1)
    for text in ("bandwidth", "running · 15 of 16 slots done", "1 planned, 15 done"):
        expect(row).to_contain_text(text)
    row.get_by_role("link", name="Groups").click()
    groups = page.locator("#runs tbody tr")
    expect(groups).to_have_count(4)
    expect(groups.first).to_contain_text("exchange=flat, bandwidth=10")
    page.get_by_role("link", name='swept="exchange=topk, bandwidth=100"').click()
    expect(page.get_by_role("link", name=re.compile("^grid-"))).to_have_count(3)


@pytest.mark.slow
def test_a_set_is_stopped_and_resumed_on_its_page(page: Page, master: StackConnection) -> None:
    sign_in(page, master, "/sets/grid")
    progress, plan = page.locator("#progress"), section(page, "Plan and ledger")
    stop, resume = (page.get_by_role("button", name=name) for name in ("Stop", "Resume"))
    expect(resume).to_be_hidden()
    expect(plan).to_contain_text("1 planned, 15 done")
    stop.click()
    expect(progress).to_have_text("stopped · 15 of 16 slots done")
    expect(stop).to_be_hidden()
    resume.click()
    expect(progress).to_have_text("running · 15 of 16 slots done")
    expect(stop).to_be_visible()
