"""Firing alerts on a terminal. ``tests/chain`` tests the alerts of a real Prometheus."""

import re
from concurrent.futures import Future
from typing import Any

import pytest

from mlbench import ApiClient
from mlbench.client.transport import Response
from mlbench.contract.errors import ApiError
from mlbench.contract.records import Alert
from tests.mlbench.cli.conftest import Mlbench

_SINCE = "2026-03-01T09:23:05.120000Z"


def alert(name: str, run_id: int | None) -> Alert:
    texts = {"severity": "critical", "text": f"{name} is wrong.", "runbook": f"docs/{name}.md"}
    return Alert(name=name, since=_SINCE, run_id=run_id, rank=None, pod=None, **texts)


@pytest.fixture
def firing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the alerts of Prometheus by one per run and one of a component."""
    found = [alert("OfAPart", None), *(alert("OfARun", number) for number in range(1, 1000))]
    answer(monkeypatch, lambda future: future.set_result(Response(found, 200, b"")))


def answer(monkeypatch: pytest.MonkeyPatch, fill: Any) -> None:
    def get_alerts(client: ApiClient) -> Future[Response[list[Alert]]]:
        future: Future[Response[list[Alert]]] = Future()
        fill(future)
        return future

    monkeypatch.setattr(ApiClient, "get_alerts", get_alerts)


@pytest.mark.usefixtures("firing")
def test_status_shows_firing_alerts(mlbench: Mlbench) -> None:
    assert mlbench("status", "--json").json["alerts"][0]["name"] == "OfAPart"
    told = mlbench("status").out
    assert "critical OfARun (see docs/OfARun.md)\n  OfARun is wrong.\n" in told


def test_status_works_without_prometheus(mlbench: Mlbench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, lambda future: future.set_exception(ApiError(503, "it is away")))
    done = mlbench("status", "--json")
    assert (done.code, done.json["alerts"]) == (0, None)
    assert "it is away" in done.err


@pytest.mark.usefixtures("firing")
def test_each_alert_of_a_watched_run_is_shown_once(mlbench: Mlbench) -> None:
    done = mlbench("run", "steps", "--set", "steps=100", "--set", "rate=100")
    assert done.code == 0
    shown = re.findall(r"^OfARun: .*$", done.err, re.M)
    assert shown == ["OfARun: OfARun is wrong. See docs/OfARun.md."]
