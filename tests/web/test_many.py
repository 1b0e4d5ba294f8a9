"""200 workers, 2,000 runs, a million lines, 100,000 samples: the pages do not freeze."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from benchmarks.servers import database_url
from mlbench.home import Connection
from mlbench_master.models import Run, open_database
from mlbench_master.recording.delivery import Delivery
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import PrometheusServer, free_port
from tests.support.serving import serve_master
from tests.web import made
from tests.web.conftest import section, sign_in

pytestmark = pytest.mark.slow

_WORKERS = 200
_RUNS = 2_000
_LINES = 1_000_000
_SAMPLES = 100_000

# Whose page stands still for longer thinks that it hangs. A quiet machine takes a tenth of it.
_PATIENCE_MS = 10_000
# The longest time, in ms, in which the page could not answer its user.
_WATCH_TASKS = """
    window.longest = 0;
    new PerformanceObserver((list) => {
        const times = list.getEntries().map((task) => task.duration);
        window.longest = Math.max(window.longest, ...times);
    }).observe({ type: "longtask", buffered: true });
"""


@dataclass(frozen=True)
class Large:
    """A master with much of everything."""

    connection: Connection
    run: Run
    """The one that has the lines and the samples."""


@pytest.fixture(scope="module")
def large(
    shared_prometheus: PrometheusServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Large]:
    """Runs such a master, without controller: what is in its database stays as it is."""
    folder = tmp_path_factory.mktemp("large")
    database = open_database(database_url(folder))
    writer = RemoteWriter(shared_prometheus.url)
    with database.atomic():
        made.make_workers(_WORKERS)
        made.make_runs(_RUNS - 1)
    run = made.make_ended_run(name="large")
    made.write_log(run, _LINES)
    made.record_losses(run, _SAMPLES, Delivery(writer))
    writer.close()
    database.close()
    with serve_master(folder, free_port(), shared_prometheus.url) as connection:
        yield Large(connection, run)


@pytest.fixture
def visitor(page: Page, large: Large) -> Page:
    """Is signed in, and notes for how long a page stood still."""
    page.add_init_script(_WATCH_TASKS)
    sign_in(page, large.connection)
    return page


def test_200_workers_are_found_by_name_and_node(visitor: Page, large: Large) -> None:
    visitor.goto(f"{large.connection.url}/")
    articles = visitor.get_by_role("article")
    expect(articles).to_have_count(_WORKERS)
    for text, count in (("worker-19", 11), ("node-3", 20), ("<b>", 0), ("", _WORKERS)):
        visitor.get_by_label("Filter").fill(text)
        expect(articles).to_have_count(count)
    assert visitor.evaluate("window.longest") < _PATIENCE_MS


def test_2000_runs_are_listed_and_searched(visitor: Page, large: Large) -> None:
    visitor.goto(f"{large.connection.url}/runs")
    expect(visitor.get_by_role("status").first).to_contain_text("2,000 runs")
    rows = visitor.get_by_role("row").filter(has=visitor.get_by_role("checkbox"))
    expect(rows.first).to_contain_text("large")
    visitor.get_by_label("Search").fill("number-1234")
    expect(rows).to_have_count(1)
    visitor.get_by_label("Search").fill("")
    visitor.get_by_role("button", name="Show more").click()
    expect(rows.nth(150)).to_contain_text("number-")
    assert visitor.evaluate("window.longest") < _PATIENCE_MS


def test_a_million_lines_and_100_000_samples_are_shown(visitor: Page, large: Large) -> None:
    with visitor.expect_response(re.compile("metric_filter=train_loss.*summarize=")) as answer:
        visitor.goto(f"{large.connection.url}/runs/{large.run.id}")
    # The API has summarised them: a chart has about as many points as the screen has columns.
    curves = answer.value.json()
    assert all(100 < len(points) < 5_000 for points in curves.values())
    assert curves
    log = visitor.get_by_role("log", name="Log of rank 0")
    last = f"line {_LINES} of"
    expect(log.get_by_text(last)).to_be_visible()
    for searched in ("line 500000 of", "line 1 of"):
        visitor.get_by_label("Search logs").fill(searched)
        expect(log.get_by_text(searched)).to_be_visible()
    visitor.get_by_label("Follow").check()
    expect(log.get_by_text(last)).to_be_visible()
    assert log.locator(".log-line").count() < 150
    expect(section(visitor, "Training").locator("canvas").first).to_be_visible()
    assert visitor.evaluate("window.longest") < _PATIENCE_MS
