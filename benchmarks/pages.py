"""What the web pages cost a browser, the network and the master, with much to show."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.browsing import Load, Tab, chromium, profile
from benchmarks.measure import Figure
from benchmarks.runs import append, store_run, wait_until_delivered
from benchmarks.servers import (
    Master,
    database_url,
    running_api,
    running_master,
    running_prometheus,
)
from benchmarks.watching import WORKERS, serving_workers, write_targets
from mlbench import names
from mlbench_master.models import Pod, Run, Worker, open_database

_CURVES = (names.TRAIN_LOSS, names.TRAIN_ACCURACY, names.VAL_LOSS, names.VAL_ACCURACY)
_SERIES = len(_CURVES) + 1
_LARGE_STEPS, _HUGE_STEPS = 20_000, 200_000
_STEP_SECONDS = 0.01
_RUNS = 2000
_COMPARED = 20
_COMPARED_STEPS = 500
_ROUNDS = 5
_WATCHED_SECONDS, _WATCHED_TIMES = 10.0, 3
# A time of polling, and how much faster its timers run.
_LONG_SECONDS, _HURRIED = 600.0, 20

_CURVES_DRAWN = "document.querySelector('#charts .js-line')"
_OVERLAY_DRAWN = f"document.querySelectorAll('#curves-chart .js-line').length >= {_COMPARED}"
_RUNS_SHOWN = "document.querySelectorAll('#runs tbody tr').length >= 100"
_WORKERS_SHOWN = "document.querySelector('.sparkline-line[d^=M]')"


def measure(folder: Path) -> Iterator[Figure]:
    """Yield figures of all pages: times to show, bytes, what polling costs, memory."""
    database = open_database(database_url(folder))
    with (
        serving_workers() as workers,
        running_prometheus(folder) as prometheus_url,
        chromium() as browser,
    ):
        write_targets(folder / "targets", workers)
        with running_master(folder, prometheus_url) as master:
            store_run("watched")  # the first run's series are those of the served workers
            large = _store_run("large", _LARGE_STEPS)
            huge = _store_run("huge", _HUGE_STEPS)
            compared = [_store_run(f"small-{i}", _COMPARED_STEPS) for i in range(_COMPARED)]
            ids = ",".join(str(run.id) for run in compared)
            samples = _SERIES * _LARGE_STEPS
            yield from _loads(browser, master, f"/runs/{large.id}", _CURVES_DRAWN, f"{samples:,}")
            samples = _SERIES * _HUGE_STEPS
            yield from _loads(browser, master, f"/runs/{huge.id}", _CURVES_DRAWN, f"{samples:,}")
            yield from _loads(browser, master, f"/compare?runs={ids}", _OVERLAY_DRAWN, "20 runs")
        with running_api(folder, prometheus_url) as master:
            _store_workers()
            _store_runs()
            live = _store_live_run()
            yield from _watching(browser, master, "/", _WORKERS_SHOWN, f"{WORKERS} workers")
            yield from _memory(browser, master, "/", _WORKERS_SHOWN, f"{WORKERS} workers")
            path = f"/runs/{live.id}"
            yield from _watching(browser, master, path, _CURVES_DRAWN, "a live run")
            yield from _memory(browser, master, path, _CURVES_DRAWN, "a live run")
            yield from _loads(browser, master, "/runs", _RUNS_SHOWN, f"{_RUNS:,} runs")
            yield from _watching(browser, master, "/runs", _RUNS_SHOWN, f"{_RUNS:,} runs")
    database.close()


def _loads(browser: Browser, master: Master, path: str, is_shown: str, what: str) -> list[Figure]:
    """Return how long a page takes to show what it is for, and what it loads, twice each."""
    pairs = [_load_twice(browser, master, path, is_shown) for _ in range(_ROUNDS)]
    page = path.partition("?")[0].rstrip("0123456789")
    return [
        figure
        for name, loads in zip(("first", "second"), zip(*pairs, strict=True), strict=True)
        for figure in (
            Figure(f"{page}, {what}: {name} load", "ms", [one.milliseconds for one in loads]),
            Figure("  loaded", "kB", [one.kilobytes for one in loads]),
            Figure("  CPU of the tab's main thread", "ms", [one.tab_ms for one in loads]),
            Figure("  CPU of the master", "ms", [one.master_ms for one in loads]),
        )
    ]


def _load_twice(browser: Browser, master: Master, path: str, is_shown: str) -> tuple[Load, Load]:
    with profile(browser) as context:
        tab = Tab(context, master)
        return tab.load(path, is_shown), tab.load(path, is_shown)


def _watching(
    browser: Browser, master: Master, path: str, is_shown: str, what: str
) -> list[Figure]:
    """Return what an open page costs in a second."""
    with profile(browser) as context:
        tab = Tab(context, master)
        tab.open(path, is_shown)
        spent = [tab.watch(_WATCHED_SECONDS) for _ in range(_WATCHED_TIMES)]
    return [
        Figure(
            f"{what}, open: requests", "a second", [one.requests / one.seconds for one in spent]
        ),
        Figure(
            "  CPU of the tab's main thread", "ms/s", [one.tab_ms / one.seconds for one in spent]
        ),
        Figure("  CPU of the master", "ms/s", [one.master_ms / one.seconds for one in spent]),
    ]


def _memory(browser: Browser, master: Master, path: str, is_shown: str, what: str) -> list[Figure]:
    """Return the tab's memory as it opens, and after a long time of polling, run faster."""
    with profile(browser, _HURRIED) as context:
        tab = Tab(context, master)
        tab.open(path, is_shown)
        begin = tab.heap_megabytes()
        tab.watch(_LONG_SECONDS / _HURRIED)
        end = tab.heap_megabytes()
    minutes = _LONG_SECONDS / 60
    return [
        Figure(f"{what}: memory at first", "MB", [begin]),
        Figure(f"{what}: memory after {minutes:.0f} minutes of polling", "MB", [end]),
    ]


def _store_run(name: str, steps: int) -> Run:
    """Return a run whose samples a running controller has delivered."""
    run = store_run(name)
    run.started_at = time.time() - steps * _STEP_SECONDS
    run.finished_at = time.time()
    run.save()
    append(run, 0, _lines(run.started_at, steps))
    wait_until_delivered(run)
    return run


def _store_live_run() -> Run:
    """Return a run that goes on; its samples wait, as no controller delivers them."""
    run = store_run("live", "STARTED")
    run.started_at = time.time() - _LARGE_STEPS * _STEP_SECONDS
    run.finished_at = None
    run.save()
    append(run, 0, _lines(run.started_at, _LARGE_STEPS // _SERIES))
    return run


def _lines(started_at: float, steps: int) -> Iterator[bytes]:
    """Yield a step's metrics a line: curves that fall and rise, with 17 digits."""
    for step in range(steps):
        curves = {name: (i + 1) / (1 + step / 100) for i, name in enumerate(_CURVES)}
        metrics = curves | {names.TRAIN_SECONDS: 0.9 * step * _STEP_SECONDS}
        moment = round(started_at + step * _STEP_SECONDS, 6)
        yield json.dumps({"time": moment, "metrics": metrics}).encode() + b"\n"


def _store_workers() -> None:
    now = time.time()
    for number in range(WORKERS):
        place = {"name": f"w{number}", "ip": "10.0.0.1"}
        Pod.create(**place, phase="Running", node=f"n{number % 20}", labels={})
        Worker.create(**place, state="idle", seen_at=now)


def _store_runs() -> None:
    for number in range(_RUNS):
        store_run(f"run-{number}")
