"""The alerts that fire now: for those who look at a terminal instead of Grafana."""

import time
from dataclasses import dataclass
from typing import Any

import httpx

from mlbench.errors import MLBenchError
from mlbench.login import split_login

# Prometheus looks at its rules every few seconds.
_LOOK_SECONDS = 2.0
_TIMEOUT_SECONDS = 5.0


class NoAlertsError(MLBenchError):
    """Prometheus does not say which alerts fire."""


@dataclass(frozen=True)
class Alert:
    """An alert that fires."""

    name: str
    severity: str
    text: str
    """What is the matter, in a sentence."""
    runbook: str
    """The page that says what to do."""
    run_id: int | None
    """The run that it is about; none where it is about a part of the stack."""


def firing(prometheus_url: str) -> list[Alert]:
    """Return the alerts that fire, from ``GET /api/v1/alerts`` of Prometheus.

    Raises:
        NoAlertsError: Prometheus gives no answer, or not one of its own.
    """
    # The password must not be in the error, which tells the address.
    url, login = split_login(prometheus_url)
    try:
        answer = httpx.get(
            f"{url}/api/v1/alerts",
            auth=login,
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,  # it is on this machine: a proxy would not find it
        )
        alerts = answer.raise_for_status().json()["data"]["alerts"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise NoAlertsError(
            f"Prometheus at {url} does not say which alerts fire: {error!r}"
        ) from error
    return [_read(one) for one in alerts if one["state"] == "firing"]


def _read(alert: dict[str, Any]) -> Alert:
    labels, annotations = alert["labels"], alert["annotations"]
    run_id = labels.get("run_id", "")
    return Alert(
        name=labels["alertname"],
        severity=labels.get("severity", ""),
        text=annotations.get("description", ""),
        runbook=annotations.get("runbook", ""),
        run_id=int(run_id) if run_id.isdecimal() else None,
    )


class AlertWatch:
    """Looks at the alerts of one run now and then; a Prometheus that is away shows none."""

    def __init__(self, prometheus_url: str | None, run_id: int) -> None:
        self._prometheus_url = prometheus_url
        self._run_id = run_id
        self._looked_at = float("-inf")
        self._alerts: list[Alert] = []

    def look(self) -> list[Alert]:
        """Return the alerts that fired when it looked last, at most 2 s ago."""
        if self._prometheus_url and time.monotonic() - self._looked_at > _LOOK_SECONDS:
            try:
                found = firing(self._prometheus_url)
            except NoAlertsError:
                found = []
            self._alerts = [alert for alert in found if alert.run_id == self._run_id]
            self._looked_at = time.monotonic()
        return self._alerts
