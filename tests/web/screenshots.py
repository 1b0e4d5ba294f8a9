"""Take the screenshots of pages and dashboards in the documentation: ``make screenshots``.

The runs use a separate stack in a temporary folder. Screenshots of dashboards need Grafana, which
``mlbench up`` must find.
"""

import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.chromium import running_chromium
from tests.support.known import known
from tests.support.stacks import order_command, run_to_end

_ROOT = Path(__file__).parents[2]
_WIDTH = 1440
_HEIGHT = 1500
_WORKERS = 2
# By this epoch, the active run has curves to show.
_EPOCHS = 30
_PATIENCE_SECONDS = 300.0
# Panels load only when they are drawn.
_SETTLES_MILLISECONDS = 6000


def main(folder: Path) -> None:
    """Write ``web-home.png``, ``grafana-run.png`` and the other screenshots to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=_PATIENCE_SECONDS * 1000)
    with tempfile.TemporaryDirectory(prefix="mlbench-screenshots-") as root:
        home = Home(Path(root))
        connection = launch.start_detached(home, workers=_WORKERS)
        try:
            with ApiClient.from_home(home) as client, running_chromium() as browser:
                page = browser.new_page(
                    viewport={"width": _WIDTH, "height": _HEIGHT},
                    color_scheme="light",
                    reduced_motion="reduce",
                )
                page.goto(f"{connection.url}/signin?token={connection.token}")
                compared, going = _take_pages(client, connection.url, page, folder)
                if connection.grafana_url:
                    _take_boards(connection.grafana_url, page, folder, compared, going)
                else:
                    print("no pictures of dashboards: mlbench up finds no Grafana")
        finally:
            launch.stop(home)


def _take_pages(client: ApiClient, url: str, page: Page, folder: Path) -> tuple[Sequence[Run], Run]:
    """Take the web pages; return the ended runs and the active one."""
    compared = []
    for name, workers, args in (
        ("digits-1", 1, {}),
        ("digits-2", 2, {}),
        ("digits-2-one-buffer", 2, {"exchange": "flat"}),
    ):
        run = _order(client, name, workers, **args)
        compared.append(run_to_end(client, run, _PATIENCE_SECONDS))
    # The run has ended, because drawing an active one would take cores from the training.
    page.goto(f"{url}/runs/{compared[1].id}")
    training = page.get_by_role("region", name="Training", exact=True)
    expect(training.locator("canvas").first).to_be_visible()
    expect(page.get_by_text("Goodput").first).to_be_visible()
    _shoot(page, folder / "web-run.png", height=_HEIGHT)
    _take_findings(client, url, page, folder / "web-findings.png")
    going = _order(client, "digits-2-long", 2, goal="99.9", epochs="1000")
    wait_for(lambda: _epochs(client, going) >= _EPOCHS, _PATIENCE_SECONDS, "the run is active")
    page.goto(f"{url}/")
    expect(page.locator("main canvas").first).to_be_visible()
    _shoot(page, folder / "web-home.png", height=_HEIGHT)
    page.goto(f"{url}/workers")
    expect(page.locator(".sparkline").first).to_be_visible()
    _shoot(page, folder / "web-workers.png", height=460)
    page.goto(f"{url}/runs")
    expect(page.get_by_role("checkbox")).to_have_count(len(compared) + 2)
    expect(page.locator(".side canvas").first).to_be_visible()
    _shoot(page, folder / "web-runs.png", height=620)
    page.goto(f"{url}/compare?runs={','.join(str(run.id) for run in compared)}")
    accuracy = page.get_by_role("region", name="Validation accuracy", exact=True)
    expect(accuracy.locator("canvas").first).to_be_visible()
    _shoot(page, folder / "web-compare.png", height=_HEIGHT)
    return compared, client.get_run(going.id).result().value


def _take_findings(client: ApiClient, url: str, page: Page, path: Path) -> None:
    """Take the findings about the slow training of ``docs/slow-run.md``."""
    command = f"{Path(sys.executable).with_name('torchrun')} --nproc-per-node 2 train.py"
    working_dir = str(_ROOT / "examples" / "slow_run")
    order = order_command(client, "slow", command, num_workers=1, working_dir=working_dir)
    page.goto(f"{url}/runs/{run_to_end(client, order, _PATIENCE_SECONDS).id}")
    findings = page.get_by_role("list", name="Findings")
    expect(findings.get_by_text("Training waits for data")).to_be_visible()
    findings.screenshot(path=path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def _take_boards(url: str, page: Page, folder: Path, compared: Sequence[Run], going: Run) -> None:
    """Take each dashboard from the top, after its visible panels have loaded."""
    runs = "".join(f"&var-run_id={run.id}" for run in compared)
    # The run's page links to its dashboard with this range.
    started = datetime.fromisoformat(known(going.started_at))
    for board, variables, begin, height in (
        ("run", f"&var-run_id={going.id}", f"{started.timestamp() * 1000:.0f}", 1900),
        ("runs", "", "now-5m", 1000),
        ("compare", runs, "now-5m", 1500),
        ("workers", "", "now-5m", 1300),
        ("stack", "", "now-5m", 1300),
    ):
        page.set_viewport_size({"width": _WIDTH, "height": height})
        page.goto(f"{url}/d/mlbench-{board}?from={begin}&to=now&theme=light&kiosk{variables}")
        expect(page.locator('[data-testid^="data-testid Panel header"]').first).to_be_visible()
        page.wait_for_timeout(_SETTLES_MILLISECONDS)
        expect(page.locator('[aria-label="Panel loading bar"]')).to_have_count(0)
        path = folder / f"grafana-{board}.png"
        page.screenshot(path=path)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def _order(client: ApiClient, name: str, num_workers: int, **args: str) -> Run:
    order = client.create_run(name, num_workers, None, benchmark="digits", args=args, seed=1)
    return order.result().value


def _epochs(client: ApiClient, run: Run) -> int:
    """Return the current epoch of rank 0, or 0 before the first one."""
    found = client.get_run_metrics(run.id, metric_filter="epoch", last_n=1).result().value
    points = found.get("epoch @ 0")
    return int(float(points[-1].value)) if points else 0


def _shoot(page: Page, path: Path, height: int) -> None:
    """Write a screenshot of a page from the top to its end, limited to a height in pixels."""
    whole = 16 + page.evaluate(
        "Math.max(...[...document.querySelectorAll('main *')]"
        ".map((element) => element.getBoundingClientRect().bottom))"
    )
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": _WIDTH, "height": min(height, whole)})
    kilobytes = path.stat().st_size / 1000
    print(f"{path}: {kilobytes:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
