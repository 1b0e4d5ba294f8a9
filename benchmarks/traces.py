"""Chromium's own trace of a page: events, and how long a task takes the processor."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from playwright.sync_api import Browser, Page

_TIMELINE = "disabled-by-default-devtools.timeline"
_CATEGORIES = ["devtools.timeline", _TIMELINE, f"{_TIMELINE}.frame"]

Events = Sequence[Mapping[str, Any]]


def begin(browser: Browser, page: Page) -> None:
    """Begin to record the trace of a page. A browser records one at a time."""
    browser.start_tracing(page=page, categories=_CATEGORIES)


def end(browser: Browser) -> Events:
    """Return the events since ``begin``."""
    events: Events = json.loads(browser.stop_tracing())["traceEvents"]
    return events


def longest_task_ms(events: Events) -> float:
    """Return the longest task of a page, without the time of other processes on its core."""
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = (e for e in events if "Task" in e["name"] and (e["pid"], e["tid"]) in mains)
    return max((task.get("tdur", 0) for task in tasks), default=0) / 1000
