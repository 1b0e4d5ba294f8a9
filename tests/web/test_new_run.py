"""The dialog for a new run: choices, and refused input."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import StackConnection
from tests.support.stacks import order_steps
from tests.web.conftest import stop_runs
from tests.web.watch import Watch

_OWN = "Your own image and command"


@pytest.fixture
def dialog(user: Page, connection: StackConnection) -> Locator:
    """The dialog, opened and with all choices loaded."""
    user.goto(f"{connection.url}/runs")
    # An empty list has the button in another place.
    expect(user.locator("#loading")).to_be_hidden()
    user.get_by_role("button", name="New run").first.click()
    dialog = user.get_by_role("dialog", name="New run")
    expect(dialog.get_by_label("Benchmark")).to_be_visible()
    return dialog


@pytest.fixture
def active_run(client: ApiClient) -> Iterator[Run]:
    """A run that stays active during the test."""
    yield order_steps(client, "active", steps=60_000, rate=100)
    stop_runs(client)


def test_the_dialog_describes_a_benchmark_and_shows_possible_options(dialog: Locator) -> None:
    """Local workers offer only whole cores, and this machine has no GPU."""
    benchmark = dialog.get_by_label("Benchmark")
    options = benchmark.locator("option").all_inner_texts()
    assert options[-1] == _OWN
    assert len(options) == 13
    benchmark.select_option("steps")
    expect(benchmark).to_have_accessible_description(_saying("No training"))
    for impossible in ("Seed", "Light target", "Image", "Command"):
        expect(dialog.get_by_label(impossible, exact=True)).to_be_hidden()
    benchmark.select_option("digits-linear")
    expect(benchmark).to_have_accessible_description(_saying("93 % validation accuracy"))
    for possible in ("Seed", "Light target", "CPUs per worker", "Restarts", "Deadline (seconds)"):
        expect(dialog.get_by_label(possible)).to_be_visible()
    benchmark.select_option(_OWN)
    for own in ("Image", "Command"):
        expect(dialog.get_by_label(own, exact=True)).to_be_visible()
    expect(dialog.get_by_label("Options", exact=True)).to_be_hidden()


def test_invalid_input_is_reported_at_its_field_and_not_sent(
    dialog: Locator, client: ApiClient, watch: Watch
) -> None:
    before = len(client.get_runs().result().value)
    for field, wrong, problem, right in (
        ("Name", "17", "must not be a number", "My run"),
        ("Workers", "1000", "at most 16", "2"),
        ("CPUs per worker", "1.5", "whole", "1"),
    ):
        control = dialog.get_by_label(field, exact=True)
        control.fill(wrong)
        expect(control).to_have_attribute("aria-invalid", "true")
        expect(control).to_have_accessible_description(_saying(problem))
        control.fill(right)
        expect(control).to_have_attribute("aria-invalid", "false")
    benchmark, start = dialog.get_by_label("Benchmark"), dialog.get_by_role("button", name="Start")
    benchmark.select_option(_OWN)
    image = dialog.get_by_label("Image", exact=True)
    image.fill("")
    start.click()
    expect(image).to_be_focused()
    expect(image).to_have_accessible_description(_saying("image is required"))
    command = dialog.get_by_label("Command", exact=True)
    expect(command).to_have_accessible_description(_saying("command is required"))
    # Errors that only the master detects are also shown at their field.
    watch.expect("status of 400")
    benchmark.select_option("digits")
    dialog.get_by_label("Light target").check()
    value = dialog.get_by_label("Options", exact=True)
    value.fill("goal = 97")
    start.click()
    refusal = _saying("light_target implies 90 (got 97). Leave out one of the two.")
    expect(value).to_have_accessible_description(refusal)
    value.fill("goal = 90")
    expect(value).to_have_attribute("aria-invalid", "false")
    assert len(client.get_runs().result().value) == before


def test_start_is_disabled_until_the_choices_are_loaded(
    user: Page, connection: StackConnection
) -> None:
    held: list[Route] = []
    user.route("**/api/benchmarks/", lambda route: held.append(route))  # noqa: PLW0108 - gets an attribute
    with user.expect_request("**/api/benchmarks/"):
        user.goto(f"{connection.url}/runs?new=1")
    start = user.get_by_role("dialog").get_by_role("button", name="Start run")
    expect(start).to_be_disabled()
    for route in held:
        route.continue_()
    expect(start).to_be_enabled()


def test_a_run_is_queued_or_refused_during_an_active_run(
    active_run: Run, dialog: Locator, watch: Watch
) -> None:
    queue = dialog.get_by_label("Wait for the active run")
    expect(queue).to_be_checked()
    expect(queue).to_have_accessible_description(_saying(f"Run {active_run.id} (active)"))
    watch.expect("status of 409")
    queue.uncheck()
    dialog.get_by_role("button", name="Start run").click()
    expect(dialog.get_by_role("alert")).to_contain_text(f"run {active_run.id}")
    queue.check()
    dialog.get_by_role("button", name="Start run").click()
    dialog.page.wait_for_url("**/runs/*")
    expect(dialog.page.get_by_role("status").first).to_have_text("queued")


def test_a_closed_dialog_keeps_its_input(dialog: Locator) -> None:
    dialog.get_by_label("Name").fill("kept")
    dialog.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    opener = dialog.page.get_by_role("button", name="New run").first
    expect(opener).to_be_focused()
    opener.press("Enter")
    expect(dialog.get_by_label("Name")).to_have_value("kept")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()


def _saying(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))
