"""A real Grafana draws every panel of every board, for an ended and an active run.

$GRAFANA_IMAGE names its container image. .github/workflows/grafana.yml tries several.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Response

from mlbench.contract import names
from mlbench.local.grafana_archive import VERSION
from mlbench.local.home import Home
from tests.conftest import free_port, wait_for
from tests.grafana.runs import used_stack
from tests.support.dashboards import ROOT, load_all
from tests.support.documentation import commands_below
from tests.support.panels import View
from tests.support.scripted import Asked, Reply, answering

_IMAGE = os.environ.get("GRAFANA_IMAGE")
# Grafana's test id for a panel in error, from version 10.2 on.
_ERROR = '[data-testid="data-testid Panel status error"]'
_BROKEN = ("Panel plugin not found", "Panel not found", "Dashboard not found")
_PATIENCE_MS = 60_000


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(not _IMAGE, reason="$GRAFANA_IMAGE names no image of Grafana")
def test_every_panel_is_drawn(prometheus_binary: Path, tmp_path: Path, chromium: Browser) -> None:
    root = tmp_path / "stack"
    with used_stack(prometheus_binary, root) as used, _container(Home(root)) as url:
        faults = [
            f"{view.name}: {fault}"
            for view in (used.finished, used.active)
            for board in load_all()
            for panel in board.panels
            for fault in _faults(chromium, _panel_url(url, board.uid, panel["id"], view))
        ]
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.slow
def test_a_panel_in_error_is_noticed(chromium: Browser) -> None:
    pages = {
        "/good": "<p>Loss</p>",
        "/marked": '<button data-testid="data-testid Panel status error" aria-label="bad query">',
        "/unknown": "<p>Panel plugin not found: old-graph</p>",
        "/refused": "<p>Loss</p><script>fetch('/api/ds/query')</script>",
        "/crashed": "<p>Loss</p><script>null.field</script>",
        "/empty": "",
    }

    def answer(request: Asked) -> Reply:
        body = pages.get(request.path)
        if body is None:
            return Reply(400, {"message": "parse error"})
        return Reply(200, f"<!doctype html>{body}".encode(), (("Content-Type", "text/html"),))

    with answering(answer) as server:
        faults = {path: list(_faults(chromium, f"{server.url}{path}")) for path in pages}
    assert faults.pop("/good") == []
    assert [len(errors) for errors in faults.values()] == [1] * 5, faults


def _faults(browser: Browser, url: str) -> Iterator[str]:
    """Open a page that shows one panel, and yield the panel's errors."""
    refused: list[str] = []
    crashes: list[str] = []

    def note(response: Response) -> None:
        if response.status >= 400 and "/api/ds/query" in response.url:
            refused.append(f"HTTP {response.status}")

    page: Page = browser.new_page()
    try:
        page.on("response", note)
        page.on("pageerror", lambda error: crashes.append(error.message))
        page.goto(url, wait_until="networkidle", timeout=_PATIENCE_MS)
        text = page.locator("body").inner_text()
        marked = [mark.get_attribute("aria-label") or "" for mark in page.locator(_ERROR).all()]
    finally:
        page.close()
    messages = [words for words in _BROKEN if words in text]
    if not text.strip() and not marked:
        messages = ["an empty page"]
    for fault in (*refused, *crashes, *marked, *messages):
        yield f"{url}: {fault}"


def _panel_url(url: str, uid: str, panel: int, view: View) -> str:
    """Return the URL of a single panel, which may be in a collapsed row."""
    times = {"from": f"{view.first * 1000:.0f}", "to": f"{view.last * 1000:.0f}"}
    fields = {"panelId": panel, "var-run_id": view.run_id, **times}
    return f"{url}/d-solo/{uid}/{uid}?{urlencode(fields)}"


@contextmanager
def _container(home: Home) -> Iterator[str]:
    """Run the container command of docs/monitoring.md for a stack, and yield Grafana's URL."""
    name, port = f"mlbench-{uuid.uuid4().hex[:8]}", free_port()
    prometheus = urlsplit(home.read_connection().prometheus_url or "")
    commands = commands_below("In a container")
    for documented, actual in (
        ("docker run --rm", f"docker run --rm --name {name} --env GF_SERVER_HTTP_PORT={port}"),
        ("127.0.0.1:9090", f"127.0.0.1:{prometheus.port}"),
        (f"docker.io/grafana/grafana:{VERSION}", _IMAGE or ""),
    ):
        assert documented in commands
        commands = commands.replace(documented, actual)
    environ = {**os.environ, names.ENV_HOME: str(home.root)}
    container = subprocess.Popen(["bash", "-ec", commands], cwd=ROOT, env=environ)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: container.poll() is not None or _has_boards(url), 300, "Grafana is up")
        assert container.poll() is None, "the container has ended"
        yield url
    finally:
        subprocess.run(["docker", "stop", name], check=False, capture_output=True)
        container.wait(60)


def _has_boards(url: str) -> bool:
    try:
        return all(
            httpx.get(f"{url}/api/dashboards/uid/{board.uid}").is_success for board in load_all()
        )
    except httpx.HTTPError:
        return False
