"""What /metrics says of the master and its spool; promtool finds nothing to complain about."""

import subprocess
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from falcon.testing import TestClient

from master.app import create_app
from master.models import KeptSample, run_owner
from master.reading.promql import PrometheusClient
from master.recording import streams
from master.recording.delivery import Delivery
from master.recording.samples import Sample
from master.settings import Settings
from tests.master.making import line, make_pod, make_run, make_worker, post, record
from tests.master.telemetry.scraping import scrape, value


def test_promtool_finds_nothing_to_complain_about(api: TestClient, promtool: Path) -> None:
    make_run(state="FINISHED", started_at=1.0, finished_at=2.0, goal_reached_at=1.5)
    make_worker(make_pod())
    make_run(goal={"metric": 'ü "\\\n', "value": 97.0, "lower_is_better": False})
    api.simulate_get("/api/runs")
    answer = api.simulate_get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=answer.content, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_an_empty_master_can_be_scraped(api: TestClient, promtool: Path) -> None:
    answer = api.simulate_get("/metrics")
    subprocess.run([promtool, "check", "metrics"], input=answer.content, check=True)
    assert value(api, "mlbench_spool_bytes") == 0
    assert value(api, "mlbench_kept_samples") == 0


def test_what_waits_and_what_is_kept(api: TestClient, delivery: Delivery) -> None:
    run = make_run()
    stream = record(run, line(time.time(), a=1, text="kept"))
    post(run_owner(run.id), [Sample("b", "", 0, 1.0)])
    waiting = value(api, "mlbench_spool_bytes")
    assert waiting is not None
    assert waiting > stream.size
    delivery.deliver_waiting()
    assert value(api, "mlbench_spool_bytes") == 0
    assert value(api, "mlbench_kept_samples") == KeptSample.select().count() == 2


def test_logs_are_not_what_waits(api: TestClient) -> None:
    run = make_run()
    streams.append(streams.StreamKey(run_owner(run.id), 1, 0, "stdout"), 0, b"text")
    assert value(api, "mlbench_spool_bytes") == 0


def test_where_a_browser_reaches_it_and_how_much_may_wait(
    settings: Settings, api: TestClient, prometheus: PrometheusClient
) -> None:
    app = create_app(replace(settings, url="http://example.org/m", spool_bytes=5), prometheus)
    [(labels, _)] = scrape(TestClient(app))["mlbench_master_info"]
    assert labels == {"url": "http://example.org/m", "version": version("mlbench")}
    assert value(TestClient(app), "mlbench_spool_limit_bytes") == 5
