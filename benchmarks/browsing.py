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
_PATIENCE_MS = 60_000.0
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
class Load:
    """A page until it showed what it is for."""

    milliseconds: float
    """Since the navigation began."""
    kilobytes: float
    """That came over the network, compressed, headers included."""
    tab_ms: float
    """Of processor time that the tab's main thread took, until all was loaded."""
    master_ms: float
    """Of processor time that the master took until then."""


@dataclass(frozen=True)
class Spent:
    """What an open page cost in a time."""

    seconds: float
    requests: int
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
        self.page.set_default_timeout(_PATIENCE_MS)
        self.page.goto(f"{self._url}/signin?token={TOKEN}")
        self.page.goto("about:blank")
        self._session: CDPSession = context.new_cdp_session(self.page)
        self._bytes = 0.0
        self._requests = 0
        self._session.on("Network.loadingFinished", self._count)
        self._session.send("Network.enable")
        self._session.send("HeapProfiler.enable")
        # Of the processor: what others do on the machine is not measured.
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def open(self, path: str, is_shown: str) -> float:
        """Open a page until a JavaScript expression is true in it; return the milliseconds."""
        self.page.goto(self._url + path, wait_until="commit")
        return float(self.page.evaluate(_WAIT % is_shown))

    def load(self, path: str, is_shown: str) -> Load:
        """Open a page, and let it load all that it wants."""
        self._bytes = 0.0
        self.page.goto("about:blank")
        tab_ms, master_ms = self._tab_ms(), self._master_ms()
        milliseconds = self.open(path, is_shown)
        self.page.wait_for_load_state("networkidle")
        return Load(
            milliseconds,
            self._bytes / 1000,
            self._tab_ms() - tab_ms,
            self._master_ms() - master_ms,
        )

    def watch(self, seconds: float) -> Spent:
        """Leave the page alone for a time."""
        requests, tab_ms, master_ms = self._requests, self._tab_ms(), self._master_ms()
        self.page.wait_for_timeout(seconds * 1000)
        return Spent(
            seconds,
            self._requests - requests,
            self._tab_ms() - tab_ms,
            self._master_ms() - master_ms,
        )

    def heap_megabytes(self) -> float:
        """Return the size of all objects that are still in use."""
        self._session.send("HeapProfiler.collectGarbage")
        return self._figure("JSHeapUsedSize") / 1e6

    def _tab_ms(self) -> float:
        return self._figure("TaskDuration") * 1000

    def _master_ms(self) -> float:
        times = self._master.cpu_times()
        return float(times.user + times.system) * 1000

    def _figure(self, name: str) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == name)

    def _count(self, event: Any) -> None:
        self._bytes += event["encodedDataLength"]
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
