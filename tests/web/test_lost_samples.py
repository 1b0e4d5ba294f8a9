"""A run of which Prometheus has lost samples: the page says so, and draws nothing."""

import time
from pathlib import Path

from playwright.sync_api import Page, expect

from benchmarks.servers import database_url
from master.models import Series, open_database, run_owner
from tests.conftest import PrometheusServer, free_port
from tests.web import made
from tests.web.conftest import sign_in
from tests.web.serving import serve_master
from tests.web.watch import Watch


def test_the_page_says_what_prometheus_has_lost(
    page: Page, watch: Watch, shared_prometheus: PrometheusServer, tmp_path: Path
) -> None:
    database = open_database(database_url(tmp_path))
    now = int(time.time() * 1000)
    counted = {"recorded": 411, "in_prometheus": 411, "kept": 0}
    run = made.make_ended_run(name="lost", delivery=counted, num_workers=1)
    span = {"first_ms": now - 60_000, "last_ms": now - 1000, "samples": 411}
    for metric in ("train_loss", "train_seconds"):
        Series.create(owner=run_owner(run.id), metric=metric, rank="0", **span)
    uncounted = made.make_ended_run(name="uncounted", state="STOPPED", delivery=None)
    database.close()
    watch.expect("502")
    with serve_master(tmp_path, free_port(), shared_prometheus.url) as connection:
        sign_in(page, connection)
        page.goto(f"{connection.url}/runs/{run.id}")
        training = page.get_by_role("region", name="Training", exact=True)
        words = f"samples of run {run.id}: it lost or forgot the rest"
        expect(training).to_contain_text(words)
        expect(training.get_by_text("Loading…")).to_be_hidden()
        expect(page.get_by_role("region", name="Progress", exact=True)).to_contain_text(words)
        expect(training.get_by_role("img")).to_have_count(0)

        page.goto(f"{connection.url}/runs/{uncounted.id}")
        expect(page.get_by_role("region", name="Delivery")).to_contain_text("Not yet counted")
        expect(page.get_by_text("its samples are not yet counted").first).to_be_visible()
        # It asks on until the run is counted.
        page.goto("about:blank")
