"""Starting the Chromium that is installed here."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Nothing but the page is to be loaded, and root has no sandbox.
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
    """There is no Chromium here."""


def launch_chromium(playwright: Playwright) -> Browser:
    """Start Chromium: $CHROMIUM, or the one on the path.

    Raises:
        NoChromiumError: there is none.
    """
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else _NAMES)), None)
    if found is None:
        raise NoChromiumError(
            "there is no Chromium: install it (Debian: the package chromium-headless-shell), or "
            "name the program you have: CHROMIUM=/path/to/chromium"
        )
    return playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
