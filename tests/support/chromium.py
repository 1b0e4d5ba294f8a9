"""Start the installed Chromium."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Chromium must load nothing but the page, and its sandbox does not work for root.
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class NoChromiumError(Exception):
    """Chromium is not installed."""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Run Chromium: $CHROMIUM, or the one on the path. Only one can run per process.

    Raises:
        NoChromiumError: Chromium is not installed.
    """
    named = os.environ.get("CHROMIUM")
    path = next(filter(None, map(shutil.which, [named] if named else _NAMES)), None)
    if path is None:
        raise NoChromiumError(
            "there is no Chromium: install it (Debian: the package chromium-headless-shell), or "
            "name the program you have: CHROMIUM=/path/to/chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()
