"""The page that compares runs: figures, curves, scaling, and in what the runs differ."""

import re

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.support.stacks import run_to_end
from tests.web.conftest import drag, section
from tests.web.watch import Watch


@pytest.mark.slow
def test_runs_and_their_target_are_chosen_and_compared(
    user: Page, client: ApiClient, connection: StackConnection, watch: Watch
) -> None:
    compared = []
    for workers in (1, 2):
        order = client.create_run(
            f"on-{workers}", workers, None, benchmark="digits-linear", seed=1, light_target=True
        )
        compared.append(run_to_end(client, order.result().value))
    user.goto(f"{connection.url}/compare")
    expect(user.get_by_text("No runs to compare")).to_be_visible()
    runs, target = (user.get_by_role("textbox", name=name) for name in ("Runs", "Target"))
    runs.fill(",".join(str(run.id) for run in compared))
    user.keyboard.press("Enter")
    times = section(user, "Time to target")
    for run in compared:
        expect(times.get_by_role("row").filter(has_text=run.name)).to_be_visible()
    expect(section(user, "Scaling").get_by_role("row")).to_have_count(3)
    workers_row = section(user, "Differences").get_by_role("row").filter(has_text="workers").first
    expect(workers_row).to_be_visible()

    curves = section(user, "Curves")
    chart = curves.get_by_role("img").first
    for axis in ("Training time", "Wall-clock time", "Step"):
        curves.get_by_role("radio", name=axis).check()
        expect(chart).to_have_accessible_name(re.compile(f"by {axis.split()[0]}", re.IGNORECASE))
    targets = chart.get_attribute("aria-label")
    for added in ("train_loss", "val_global_loss"):
        curves.get_by_role("combobox", name="Metric").select_option(added)
    expect(curves.get_by_role("img")).to_have_count(3)
    assert chart.get_attribute("aria-label") == targets
    curves.get_by_role("button", name="Remove val_global_Prec@1").click()
    expect(chart).to_have_accessible_name(re.compile("; train_loss by"))
    # Who is sent the address sees the same, and what is zoomed in one chart is so in all.
    user.reload()
    expect(curves.get_by_role("img")).to_have_count(2)
    drag(user, curves.locator(".u-over").first, 0.2, 0.7)
    expect(curves.get_by_role("button", name="Show all")).to_have_count(2)

    target.fill("val_global_Prec@1>=100.5")
    user.keyboard.press("Enter")
    expect(times).to_contain_text("not reached", ignore_case=True)
    watch.expect("status of 400")
    target.fill("nonsense")
    user.keyboard.press("Enter")
    expect(target).to_have_attribute("aria-invalid", "true")
    target.fill("")
    runs.fill("one, two")
    user.keyboard.press("Enter")
    expect(runs).to_have_attribute("aria-invalid", "true")
    watch.expect("status of 404")
    runs.fill(f"{compared[0].id},999999")
    user.keyboard.press("Enter")
    expect(user.get_by_role("status").filter(has_text="999999")).to_be_visible()
