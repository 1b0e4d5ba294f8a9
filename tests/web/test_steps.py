"""Steps and the time breakdown over time, for a run with a straggler and a restarted run."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from mlbench_master.database.models import Rank, Run
from tests.conftest import wait_for
from tests.support.rows import line, record
from tests.web import made
from tests.web.conftest import Filled, drag, section, sign_in

_SLOW, _RESTARTED = 1, 2
# A step of the slow rank 1 takes 0.2 s. Rank 0 waits for half of this time.
_STEP, _WAIT, _EXCHANGE = 0.2, 0.1, 0.02
_STEPS = 200


def _train(run: Run, rank: int, first: int, last: int, began: float, at: float) -> None:
    """Record steps ``first`` to ``last``; the last one ends ``at`` seconds after the start."""
    start = began + 2
    communicated = _EXCHANGE + (_WAIT if rank == 0 else 0.0)
    lines = [
        line(
            start + _STEP * (step - first),
            step=step,
            sampled_step=step,
            sampled_communication_seconds=communicated,
            train_seconds=at + _STEP * (step - first),
            communication_seconds=communicated * step,
        )
        for step in range(first, last + 1)
    ]
    record(run, b"".join(lines), rank)


def _assign(run: Run, rank: int, began: float, ended: float, code: int = 0) -> None:
    fields = {"assigned_at": began, "reported_at": began + 1, "exited_at": ended}
    worker = f"local-mlbench-worker-{rank}"
    exit_ = {"exit_code": code, "attempt": run.attempt, "rank": rank, "worker": worker}
    Rank.create(run=run, assignment={}, **fields, **exit_)


def _make_slow() -> None:
    now = time.time()
    times = {"created_at": now - 50, "started_at": now - 50, "finished_at": now - 6}
    run = made.make_ended_run(name="slow", benchmark="", num_workers=2, **times)
    for rank in (0, 1):
        _train(run, rank, 0, _STEPS, now - 50, 0.0)
        _assign(run, rank, now - 50, now - 6)


def _make_restarted() -> None:
    """Both ranks are killed after step 100; the next attempt resumes from step 60."""
    now = time.time()
    start = now - 80
    times = {"created_at": start, "started_at": start, "finished_at": now - 10}
    run = made.make_ended_run(name="restarted", benchmark="", num_workers=2, **times)
    for rank in (0, 1):
        _train(run, rank, 0, 100, start, 0.0)
        record(run, line(start + 14.001, checkpoint_step=60, checkpoint_bytes=9), rank)
        _assign(run, rank, start, start + 23, code=-9)
    Run.update(attempt=2).where(Run.id == run.id).execute()
    run.attempt = 2
    for rank in (0, 1):
        record(run, line(start + 31, restored_step=60), rank)
        _train(run, rank, 60, _STEPS, start + 30, 60 * _STEP)
        _assign(run, rank, start + 28, now - 10)


@pytest.fixture(scope="module")
def stepped(filled: Filled) -> Iterator[StackConnection]:
    """A master with a run that has a straggler, and a restarted run."""
    with filled(_make_slow, _make_restarted) as connection:
        yield connection


@pytest.fixture
def visitor(page: Page, stepped: StackConnection) -> Page:
    sign_in(page, stepped)
    return page


def test_lanes_show_the_straggler_and_zoom_to_single_steps(
    visitor: Page, stepped: StackConnection
) -> None:
    visitor.goto(f"{stepped.url}/runs/{_SLOW}")
    steps = section(visitor, "Steps")
    lanes = steps.get_by_role("img", name=re.compile("^Steps of 2 ranks over time; longest "))
    expect(lanes).to_be_visible()
    expect(steps).to_contain_text(re.compile(r"each column \d+ ms"))
    status = steps.get_by_role("status")
    lanes.hover(position={"x": 600, "y": 8})
    expect(status).to_have_text(
        re.compile(
            "^Rank 0, .*: 200 ms, of which work 80 ms, straggler wait 100 ms, "
            "communication 20 ms per step$"
        )
    )
    lanes.press("ArrowDown")
    expect(status).to_contain_text("Rank 1, ")
    expect(status).to_contain_text("straggler wait 0 s")
    steps.get_by_role("button", name="Zoom to 20 steps").click()
    expect(steps).to_contain_text(re.compile(r"Steps \d+ to \d+: a bar is one step"))
    expect(steps).to_contain_text("Communication is recorded for each step")
    lanes.hover(position={"x": 600, "y": 8})
    expect(status).to_have_text(re.compile(r"^Rank 0, step \d+: 200 ms, of which work 80 ms"))
    assert "zoom=wall," in visitor.url
    steps.get_by_role("button", name="Show all").click()
    expect(steps).to_contain_text("each column")
    steps.get_by_text("Steps as a table").click()
    expect(steps.get_by_role("row").nth(1)).to_contain_text("50.0 %")


def test_the_breakdown_over_time_adds_up_to_that_of_the_run(
    visitor: Page, stepped: StackConnection
) -> None:
    with ApiClient(url=stepped.url, token=stepped.token) as client:
        total = client.get_goodput(_RESTARTED).result().value
        bins = client.get_breakdown(_RESTARTED, bins=100).result().value
        assert {name: sum(values) for name, values in bins.seconds.items()} == pytest.approx(
            dict(total.seconds), abs=0.05
        )
        [branch] = bins.discarded
    assert (branch.begin_seconds, branch.end_seconds) == pytest.approx((14, 31), abs=0.1)
    visitor.goto(f"{stepped.url}/runs/{_RESTARTED}?tab=ranks")
    over_time = section(visitor, "Time breakdown over time")
    share = total.seconds["lost"] / sum(total.seconds.values())
    expect(over_time.get_by_label("Share of each bucket")).to_contain_text(f"lost {share:.1%}"[:-3])
    expect(over_time).to_contain_text("Below the axis: a discarded branch")
    expect(over_time.get_by_role("img", name=re.compile("of 2 workers over time"))).to_be_visible()


def test_charts_in_unopened_tabs_are_printed(visitor: Page, stepped: StackConnection) -> None:
    visitor.goto(f"{stepped.url}/runs/{_RESTARTED}")
    expect(section(visitor, "Steps").get_by_role("img")).to_be_visible()
    visitor.wait_for_load_state("networkidle")
    visitor.emulate_media(media="print")
    figures = visitor.locator(".chart-plot > svg")
    expect(visitor.locator("#over-time-map").locator(figures)).to_be_visible()
    expect(section(visitor, "Steps").locator(figures)).to_be_visible()
    visitor.emulate_media(media="screen")
    expect(figures.filter(visible=True)).to_have_count(0)
    visitor.get_by_role("tab", name="Ranks and time").click()
    over_time = visitor.locator("#over-time-map canvas")
    width = over_time.evaluate("(canvas) => canvas.parentElement.parentElement.clientWidth")
    wait_for(lambda: abs(over_time.evaluate("(canvas) => canvas.clientWidth") - width) < 20)


def test_charts_share_the_zoom_and_the_cursor(visitor: Page, stepped: StackConnection) -> None:
    visitor.goto(f"{stepped.url}/runs/{_RESTARTED}")
    over_time, steps = section(visitor, "Time breakdown over time"), section(visitor, "Steps")
    map_, lanes = over_time.get_by_role("img"), steps.get_by_role("img")
    expect(lanes).to_be_visible()
    visitor.get_by_role("tab", name="Ranks and time").click()
    expect(map_).to_be_visible()
    drag(visitor, map_, 0.4, 0.6)
    expect(over_time.get_by_role("button", name="Show all")).to_be_visible()
    map_.hover(position={"x": 500, "y": 90})
    expect(over_time.get_by_role("status")).to_contain_text("after the start, attempt ")
    expect(visitor.locator("#steps-value")).to_contain_text(re.compile("^Rank 0, "))
    visitor.get_by_role("tab", name="Overview").click()
    expect(steps.get_by_role("button", name="Show all")).to_be_visible()
    lanes.dblclick(position={"x": 500, "y": 20})
    expect(steps.get_by_role("button", name="Show all")).to_be_hidden()
    lanes.press("+")
    expect(steps.get_by_role("button", name="Show all")).to_be_visible()
    expect(visitor.locator("#over-time-map").get_by_text("Show all")).not_to_have_attribute(
        "hidden", ""
    )
