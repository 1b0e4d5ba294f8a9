"""The alerts that fire, on a terminal: read from a real Prometheus whose rules speak at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.cli.live import Alert, AlertsError, AlertWatch, read_alerts
from mlbench.home import Home
from tests.conftest import PrometheusServer, free_port, wait_for
from tests.mlbench.cli.conftest import Mlbench

_OTHERS = """
      - alert: OfAPart
        expr: vector(1)
      - alert: NotYet
        expr: vector(1)
        for: 1h
"""

_OF_A_RUN = Alert(
    "OfARun", "critical", "Run 7 (first) stands still.", "docs/runbooks/OfARun.md", run_id=7
)
_OF_A_PART = Alert("OfAPart", "", "", "", run_id=None)


def of_run(run_id: int) -> str:
    """Return a rule that fires for a run."""
    return f"""
      - alert: OfARun
        expr: label_replace(vector(1), "run_id", "{run_id}", "", "")
        labels: {{severity: critical}}
        annotations:
          description: Run {{{{ $labels.run_id }}}} (first) stands still.
          runbook: docs/runbooks/OfARun.md
"""


@contextmanager
def prometheus_with(rules: str, firing_alerts: int, binary: Path, folder: Path) -> Iterator[str]:
    """Give the address of a Prometheus once so many of its alerts fire."""
    heading = "groups:\n  - name: test\n    interval: 1s\n    rules:"
    (folder / "rules.yml").write_text(heading + rules)
    (folder / "prometheus.yml").write_text("rule_files: [rules.yml]\n")
    server = PrometheusServer(binary, folder, free_port())
    server.start()
    wait_for(lambda: len(read_alerts(server.url)) == firing_alerts, what="the alerts fire")
    yield server.url
    server.kill()


@pytest.fixture(scope="module")
def alarmed(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus with two alerts that fire and one that is pending."""
    folder = tmp_path_factory.mktemp("alarmed")
    with prometheus_with(of_run(7) + _OTHERS, 2, prometheus_binary, folder) as url:
        yield url


def test_those_that_fire_are_read(alarmed: str) -> None:
    assert sorted(read_alerts(alarmed), key=lambda alert: alert.name) == [_OF_A_PART, _OF_A_RUN]


def test_a_run_has_its_own(alarmed: str) -> None:
    assert AlertWatch(alarmed, run_id=7).read() == [_OF_A_RUN]
    assert AlertWatch(alarmed, run_id=8).read() == []


def test_a_prometheus_that_is_away_is_told_of_or_passed_over() -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(AlertsError, match=nowhere):
        read_alerts(nowhere)
    assert AlertWatch(nowhere, run_id=7).read() == []


def test_what_is_no_prometheus_is_told_of(mlbench: Mlbench) -> None:
    with pytest.raises(AlertsError, match="404"):
        read_alerts(mlbench.home.read_connection().url)


def test_status_tells_what_fires(mlbench: Mlbench, alarmed: str, tmp_path: Path) -> None:
    connection = replace(mlbench.home.read_connection(), prometheus_url=alarmed)
    home = Home(tmp_path)
    home.write_connection(connection)
    watched = replace(mlbench, home=home)
    names = [alert["name"] for alert in watched("status", "--json").json["alerts"]]
    assert sorted(names) == ["OfAPart", "OfARun"]
    told = watched("status").out
    assert "critical OfARun (see docs/runbooks/OfARun.md)\n  Run 7 (first) stands still.\n" in told


def test_status_does_without_a_prometheus(mlbench: Mlbench, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    home = Home(tmp_path)
    home.write_connection(replace(mlbench.home.read_connection(), prometheus_url=nowhere))
    done = replace(mlbench, home=home)("status", "--json")
    assert (done.code, done.json["alerts"]) == (0, None)
    assert "does not tell which alerts fire" in done.err


def test_a_run_that_is_watched_tells_its_alerts_once(
    mlbench: Mlbench, client: ApiClient, prometheus_binary: Path, tmp_path: Path
) -> None:
    newest = max((run.id for run in client.get_runs().result().value), default=0)
    rules = "".join(of_run(run_id) for run_id in range(newest + 1, newest + 20))
    home = Home(tmp_path / "home")
    with prometheus_with(rules, 19, prometheus_binary, tmp_path) as url:
        home.write_connection(replace(mlbench.home.read_connection(), prometheus_url=url))
        watched = replace(mlbench, home=home)
        done = watched("run", "steps", "--set", "steps=200", "--set", "rate=100")
    assert done.code == 0
    told = re.findall(r"^OfARun: Run (\d+) \(first\) stands still. See docs.*$", done.err, re.M)
    assert len(told) == 1
    assert f"run {told[0]} (" in done.out
    client.delete_run(int(told[0])).result()
