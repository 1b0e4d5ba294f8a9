"""A real Chromium that opens the web pages, and what a tab of it spends."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from benchmarks.servers import TOKEN, Master

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
)
_TIMEOUT_MS = 60_000.0
# Looks after each frame, as a person does.
_WAIT = """() => new Promise((done, fail) => {
    const look = () => {
        if (%s) done(performance.now());
        else if (performance.now() > 60_000) fail(new Error(document.body.innerText));
        else requestAnimationFrame(look);
    };
    look();
})"""


@dataclass(frozen=True)
class Cost:
    """What a page took, until it showed what it is for or in a time."""

    seconds: float
    requests: int
    kilobytes: float
    """That came over the network, compressed, headers included."""
    tab_ms: float
    """Of processor time of the tab's main thread."""
    master_ms: float
    """Of processor time of the master."""


class Tab:
    """A tab that is signed in."""

    def __init__(self, context: BrowserContext, master: Master) -> None:
        self._master = psutil.Process(master.worker)
        self._url = f"http://127.0.0.1:{master.port}"
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_TIMEOUT_MS)
        self.page.goto(f"{self._url}/signin?token={TOKEN}")
        self.page.goto("about:blank")
        self._session: CDPSession = context.new_cdp_session(self.page)
        self._kilobytes = 0.0
        self._requests = 0
        self._session.on("Network.loadingFinished", self._count)
        self._session.send("Network.enable")
        self._session.send("HeapProfiler.enable")
        # Of the processor: what others do on the machine is not measured.
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def open(self, path: str, is_shown: str) -> float:
        """Open a page until a JavaScript expression is true in it; return the seconds."""
        self.page.goto(self._url + path, wait_until="commit")
        return float(self.page.evaluate(_WAIT % is_shown)) / 1000

    def load(self, path: str, is_shown: str) -> Cost:
        """Open a page, and let it load all that it wants; the seconds are those of opening it."""
        self.page.goto("about:blank")
        before = self._cost(0)
        seconds = self.open(path, is_shown)
        self.page.wait_for_load_state("networkidle")
        return self._cost(seconds, before)

    def watch(self, seconds: float) -> Cost:
        """Leave the page alone for a time."""
        before = self._cost(0)
        self.page.wait_for_timeout(seconds * 1000)
        return self._cost(seconds, before)

    def _cost(self, seconds: float, before: Cost = Cost(0, 0, 0, 0, 0)) -> Cost:
        times = self._master.cpu_times()
        return Cost(
            seconds,
            self._requests - before.requests,
            self._kilobytes - before.kilobytes,
            self._metric("TaskDuration") * 1000 - before.tab_ms,
            1000 * float(times.user + times.system) - before.master_ms,
        )

    def heap_megabytes(self) -> float:
        """Return the size of all objects that are still in use."""
        self._session.send("HeapProfiler.collectGarbage")
        return self._metric("JSHeapUsedSize") / 1e6

    def _metric(self, name: str) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in metrics if metric["name"] == name)

    def _count(self, event: Any) -> None:
        self._kilobytes += event["encodedDataLength"] / 1000
        self._requests += 1


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium: ``$CHROMIUM``, or the one that is installed."""
    installed = map(shutil.which, ("chromium-headless-shell", "chromium"))
    path = os.environ.get("CHROMIUM") or next(filter(None, installed), None)
    assert path, "Chromium is missing: see scripts/get-chromium.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


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
