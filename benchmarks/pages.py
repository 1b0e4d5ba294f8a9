"""Cost of large web pages for Chromium, the network and the master."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import Browser, BrowserContext, CDPSession

from benchmarks import servers, traces
from benchmarks.measure import Figure
from benchmarks.servers import Master
from benchmarks.stored import line, store_indexed, store_run
from benchmarks.watching import WORKERS, serving_workers, write_targets
from mlbench.contract import names
from mlbench_master.database.models import Pod, Run, Worker, open_database
from tests.support.chromium import running_chromium

_TIMEOUT_MS = 60_000.0
# Checks after each frame.
_WAIT = """() => new Promise((done, fail) => {
    const look = () => {
        if (%s) done(performance.now());
        else if (performance.now() > 60_000) fail(new Error(document.body.innerText));
        else requestAnimationFrame(look);
    };
    look();
})"""

# Costs of a page while it loads or is open, with units.
_UNITS = {
    "requests": "",
    "loaded": "kB",  # over the network, compressed, headers included
    "CPU of the tab's main thread": "ms",
    "CPU of the master": "ms",
}
Cost = dict[str, float]


class Tab:
    """A tab that is signed in."""

    def __init__(self, context: BrowserContext, master: Master) -> None:
        self._master = psutil.Process(master.worker)
        self._url = f"http://127.0.0.1:{master.port}"
        assert context.browser
        self._browser = context.browser
        self._page = context.new_page()
        self._page.set_default_timeout(_TIMEOUT_MS)
        self._page.goto(f"{self._url}/signin?token={servers.TOKEN}")
        self._page.goto("about:blank")
        self._session: CDPSession = context.new_cdp_session(self._page)
        self._loaded: list[float] = []
        self._session.on(
            "Network.loadingFinished",
            lambda event: self._loaded.append(event["encodedDataLength"] / 1000),
        )
        self._session.send("Network.enable")
        self._session.send("HeapProfiler.enable")
        # CPU time, which excludes other processes of the machine.
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def open(self, path: str, is_shown: str) -> float:
        """Open a page until a JavaScript expression is true in it; return the milliseconds."""
        self._page.goto(self._url + path, wait_until="commit")
        return float(self._page.evaluate(_WAIT % is_shown))

    def load(self, path: str, is_shown: str) -> Cost:
        """Open a page, and let it load all that it wants."""
        self._page.goto("about:blank")
        traces.begin(self._browser, self._page)
        with self._spending() as cost:
            cost["load"] = self.open(path, is_shown)
            self._page.wait_for_load_state("networkidle")
        cost["longest task"] = traces.longest_task_ms(traces.end(self._browser))
        return cost

    def watch(self, seconds: float) -> Cost:
        """Leave the page alone for a time, and return what a second of it costs."""
        with self._spending() as cost:
            self._page.wait_for_timeout(seconds * 1000)
        return {kind: spent / seconds for kind, spent in cost.items()}

    @contextmanager
    def _spending(self) -> Iterator[Cost]:
        cost, before = Cost(), self._spent()
        yield cost
        spent = zip(_UNITS, self._spent(), before, strict=True)
        cost.update({kind: now - earlier for kind, now, earlier in spent})

    def _spent(self) -> tuple[float, ...]:
        times = self._master.cpu_times()
        tab_ms = self._metric("TaskDuration") * 1000
        return len(self._loaded), sum(self._loaded), tab_ms, 1000 * (times.user + times.system)

    def heap_megabytes(self) -> float:
        """Return the size of all objects that are still in use."""
        self._session.send("HeapProfiler.collectGarbage")
        return self._metric("JSHeapUsedSize") / 1e6

    def _metric(self, name: str) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in metrics if metric["name"] == name)


@contextmanager
def profile(browser: Browser, hurried: int = 1) -> Iterator[BrowserContext]:
    """Give a profile with an empty cache, in which timers run so many times as fast."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        if hurried > 1:
            context.add_init_script(
                "const wait = setTimeout;"
                f"setTimeout = (call, ms, ...rest) => wait(call, ms / {hurried}, ...rest);"
            )
        yield context


_CURVES = (names.TRAIN_LOSS, names.TRAIN_ACCURACY, names.VAL_LOSS, names.VAL_ACCURACY)
_SERIES = len(_CURVES) + 1
_LARGE_STEPS, _HUGE_STEPS = 20_000, 200_000
_STEP_SECONDS = 0.01
_RUNS = 1300
_COMPARED = 20
_COMPARED_STEPS = 500
_ROUNDS = 5
_WATCHED_SECONDS, _WATCHED_TIMES = 10.0, 3
# The path of a page, and the JavaScript expression that is true once it is complete.
_Shown = tuple[str, str]
# A time of polling, and how much faster its timers run.
_LONG_SECONDS, _HURRIED = 600.0, 20

_CURVES_DRAWN = "document.querySelector('#charts canvas')"
_OVERLAY_DRAWN = "document.querySelector('.side canvas')"
# Only rows in sight have elements.
_RUNS_SHOWN = "document.querySelectorAll('#table tbody tr').length >= 20"
_WORKERS_SHOWN = f"document.querySelectorAll('.squares a').length >= {WORKERS}"


def measure(folder: Path) -> Iterator[Figure]:
    """Yield figures of all pages: times to show, bytes, what polling costs, memory."""
    with ExitStack() as stack:
        workers = stack.enter_context(serving_workers())
        write_targets(folder / "targets", workers)  # Prometheus looks for them as it starts
        prometheus_url = stack.enter_context(servers.running_prometheus(folder))
        browser = stack.enter_context(running_chromium())
        stack.enter_context(closing(open_database(servers.database_url(folder))))
        with servers.running_master(folder, prometheus_url) as master:
            store_run("watched")  # the served workers report series of the first run
            compared = [_store_run(f"small-{i}", _COMPARED_STEPS) for i in range(_COMPARED)]
            ids = ",".join(str(run.id) for run in compared)
            for name, steps in (("large", _LARGE_STEPS), ("huge", _HUGE_STEPS)):
                page = (f"/runs/{_store_run(name, steps).id}", _CURVES_DRAWN)
                yield from _loads(browser, master, page, f"a run of {_SERIES * steps:,} samples")
            seconds = _LARGE_STEPS * _STEP_SECONDS
            active = store_run("live", "STARTED", seconds=seconds)
            store_indexed(active, _lines(seconds, _LARGE_STEPS // _SERIES))
            page = (f"/compare?runs={ids}", _OVERLAY_DRAWN)
            yield from _loads(browser, master, page, f"{_COMPARED} runs compared")
        with servers.running_api(folder, prometheus_url) as master:
            for number in range(WORKERS):
                address = {"name": f"w{number}", "ip": "10.0.0.1"}
                Pod.create(**address, phase="Running", node=f"n{number % 20}", labels={})
                Worker.create(**address, state="idle", seen_at=time.time())
            for number in range(_RUNS):
                store_run(f"run-{number}")
            live = (f"/runs/{active.id}", _CURVES_DRAWN)
            all_workers, runs = ("/workers", _WORKERS_SHOWN), ("/runs", _RUNS_SHOWN)
            yield from _loads(browser, master, ("/", _WORKERS_SHOWN), f"home, {WORKERS} workers")
            yield from _loads(browser, master, all_workers, f"{WORKERS} workers")
            for page, title in ((all_workers, f"{WORKERS} workers"), (live, "a live run")):
                yield from _watching(browser, master, page, title)
                # The memory of the tab at first, and after ten minutes of polling, run faster.
                with profile(browser, _HURRIED) as context:
                    tab = Tab(context, master)
                    tab.open(*page)
                    yield Figure(f"{title}: memory at first", "MB", [tab.heap_megabytes()])
                    tab.watch(_LONG_SECONDS / _HURRIED)
                    after = f"after {_LONG_SECONDS / 60:.0f} minutes of polling"
                    yield Figure(f"{title}: memory {after}", "MB", [tab.heap_megabytes()])
            yield from _loads(browser, master, runs, f"{_RUNS:,} runs")
            yield from _watching(browser, master, runs, f"{_RUNS:,} runs")


def _loads(browser: Browser, master: Master, page: _Shown, title: str) -> Iterator[Figure]:
    """Yield load time and cost of a page, for a first and a second load."""
    rounds = []
    for _ in range(_ROUNDS):
        with profile(browser) as context:
            tab = Tab(context, master)
            rounds.append((tab.load(*page), tab.load(*page)))
    for name, costs in zip(("first", "second"), zip(*rounds, strict=True), strict=True):
        yield Figure(f"{title}: {name} load", "ms", [cost["load"] for cost in costs])
        longest = [cost["longest task"] for cost in costs]
        yield Figure("  longest task, on the processor", "ms", longest)
        yield from _figures(costs)


def _watching(browser: Browser, master: Master, page: _Shown, title: str) -> Iterator[Figure]:
    """Yield the cost of an open page per second."""
    with profile(browser) as context:
        tab = Tab(context, master)
        tab.open(*page)
        costs = [tab.watch(_WATCHED_SECONDS) for _ in range(_WATCHED_TIMES)]
    yield from _figures(costs, f"{title}, open, in a second: ")


def _figures(costs: Sequence[Cost], prefix: str = "  ") -> Iterator[Figure]:
    for kind, unit in _UNITS.items():
        yield Figure(prefix + kind, unit, [cost[kind] for cost in costs])


def _store_run(name: str, steps: int) -> Run:
    """Return a run whose samples a running controller has indexed."""
    run = store_run(name, seconds=steps * _STEP_SECONDS)
    return store_indexed(run, _lines(steps * _STEP_SECONDS, steps))


def _lines(ago: float, steps: int) -> Iterator[bytes]:
    """Yield a step's metrics a line: curves that fall and rise, with 17 digits."""
    started_at = time.time() - ago
    for step in range(steps):
        curves = {name: (i + 1) / (1 + step / 100) for i, name in enumerate(_CURVES)}
        metrics = curves | {names.TRAIN_SECONDS: 0.9 * step * _STEP_SECONDS}
        yield line(started_at + step * _STEP_SECONDS, metrics)
