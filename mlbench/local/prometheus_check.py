"""The check of a Prometheus that MLBench did not start: what it must allow, and what it lacks."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import httpx

from mlbench.contract.humanize import join
from mlbench.contract.limits import PAST_MS
from mlbench.contract.login import split_login
from mlbench.local.home import Home

Call = Callable[[str], Any]
"""Takes a path of Prometheus's API, such as ``status/flags``; returns the response's data."""

_TIMEOUT_SECONDS = 5.0
_TARGETS = ("master", "controller", "exporter")
# Units of a duration in Prometheus's configuration.
_UNIT_MS = {
    **{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000},
    **{"d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000},
}


def missing_settings(call: Call) -> list[str]:
    """Return what MLBench needs and a Prometheus does not allow, as sentences.

    Errors of ``call`` are passed on.
    """
    flags = call("status/flags")
    window = re.search(r"out_of_order_time_window: (\S+)", call("status/config")["yaml"])
    missing = []
    if flags.get("web.enable-remote-write-receiver") != "true":
        missing.append("It takes no samples. Start it with --web.enable-remote-write-receiver.")
    parts = re.findall(r"(\d+)(ms|[smhdwy])", window[1]) if window else []  # such as 1d12h
    if sum(int(number) * _UNIT_MS[unit] for number, unit in parts) < PAST_MS:
        missing.append(
            "It may refuse late samples. "
            "Set storage.tsdb.out_of_order_time_window in its configuration to 24h."
        )
    if flags.get("web.enable-admin-api") != "true":
        missing.append(
            "The samples of deleted runs stay until they expire. "
            "Start it with --web.enable-admin-api to have them deleted."
        )
    return missing


def check(url: str, home: Home) -> list[str]:
    """Return what the Prometheus of a local stack does not have, as sentences.

    Args:
        url: its address, with user and password if it requires them.
        home: folder of the stack.
    """
    address, login = split_login(url)
    query = f"up{{instance=~{'|'.join(_TARGETS)!r}}}"
    with httpx.Client(auth=login, timeout=_TIMEOUT_SECONDS) as client:

        def call(path: str) -> Any:
            return client.get(f"{address}/api/v1/{path}").raise_for_status().json()["data"]

        try:
            missing = missing_settings(call)
            groups = call("rules?type=alert")["groups"]
            series = call(f"query?{urlencode({'query': query})}")["result"]
        except (httpx.HTTPError, ValueError, LookupError) as error:
            return [f"It does not respond as a Prometheus does ({error})."]
    if not any(rule["name"].startswith("MLBench") for group in groups for rule in group["rules"]):
        missing.append(
            "It lacks MLBench's rules, so no alert fires, and hung runs are not detected. "
            f"Add {home.prometheus}/rules/*.yml to rule_files in its configuration."
        )
    scraped = {labels["metric"].get("instance") for labels in series}
    if absent := [name for name in _TARGETS if name not in scraped]:
        missing.append(
            f"It does not scrape {join(absent)} of this stack, so their series and the resource "
            f"use of workers are missing. Add the jobs of {home.scrape_jobs} to scrape_configs in "
            "its configuration."
        )
    return missing
