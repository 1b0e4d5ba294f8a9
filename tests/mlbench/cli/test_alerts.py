"""The alerts that fire, on a terminal; ``tests/chain`` has those of a real Prometheus."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.cli import live
from mlbench.cli.live import Alert, AlertsError, AlertWatch, read_alerts
from mlbench.home import Home
from tests.conftest import free_port
from tests.mlbench.cli.conftest import Mlbench
from tests.mlbench.scripted import Reply, serving


def fields(name: str, state: str = "firing", **labels: str) -> dict[str, object]:
    """Return an alert as Prometheus's API describes it."""
    text = {"description": f"{name} is wrong.", "runbook": f"docs/{name}.md"} if labels else {}
    return {"labels": {"alertname": name, **labels}, "annotations": text, "state": state}


_RUNS = [fields("OfARun", severity="critical", run_id=str(number)) for number in range(1, 1000)]
_ALERTS = [fields("OfAPart"), fields("NotYet", "pending"), *_RUNS]
_OF_RUN_7 = Alert("OfARun", "critical", "OfARun is wrong.", "docs/OfARun.md", run_id=7)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    """The address of a Prometheus with an alert for each run, one of a part, and a pending one."""
    with serving(Reply(200, {"data": {"alerts": _ALERTS}})) as server:
        yield server.url


def watching(mlbench: Mlbench, prometheus_url: str, folder: Path) -> Mlbench:
    """Return a command line over the same stack that asks another Prometheus."""
    home = Home(folder)
    home.write_connection(replace(mlbench.home.read_connection(), prometheus_url=prometheus_url))
    return replace(mlbench, home=home)


def test_those_that_fire_are_read(prometheus: str) -> None:
    found = read_alerts(prometheus)
    assert found[0] == Alert("OfAPart", "", "", "", run_id=None)
    assert found[7] == _OF_RUN_7
    assert len(found) == 1000
    assert AlertWatch(prometheus, run_id=7).read() == [_OF_RUN_7]
    assert AlertWatch(prometheus, run_id=1000).read() == []


def test_a_prometheus_that_is_away_or_none_is_told_of(mlbench: Mlbench) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(AlertsError, match=nowhere):
        read_alerts(nowhere)
    assert AlertWatch(nowhere, run_id=7).read() == []
    with pytest.raises(AlertsError, match="404"):
        read_alerts(mlbench.home.read_connection().url)


def test_status_tells_what_fires_if_prometheus_answers(
    mlbench: Mlbench, prometheus: str, tmp_path: Path
) -> None:
    watched = watching(mlbench, prometheus, tmp_path)
    assert watched("status", "--json").json["alerts"][0]["name"] == "OfAPart"
    told = watched("status").out
    assert "critical OfARun (see docs/OfARun.md)\n  OfARun is wrong.\n" in told
    done = watching(mlbench, f"http://127.0.0.1:{free_port()}", tmp_path)("status", "--json")
    assert (done.code, done.json["alerts"]) == (0, None)
    assert "does not tell which alerts fire" in done.err


def test_a_run_that_is_watched_tells_its_alerts_once(
    mlbench: Mlbench,
    client: ApiClient,
    prometheus: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "_ALERTS_SECONDS", 0.1)
    watched = watching(mlbench, prometheus, tmp_path)
    done = watched("run", "steps", "--set", "steps=100", "--set", "rate=100")
    assert done.code == 0
    assert re.findall(r"^OfARun: .*$", done.err, re.M) == [
        "OfARun: OfARun is wrong. See docs/OfARun.md."
    ]
    [run_id] = re.findall(r"^run (\d+) \(", done.out, re.M)
    client.delete_run(int(run_id)).result()
