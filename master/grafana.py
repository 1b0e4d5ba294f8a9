"""Pushes the dashboards to the user's Grafana when the controller starts."""

import logging
import threading

from prometheus_client import CollectorRegistry, Counter

from master.settings import GrafanaSettings
from mlbench.assets import grafana_folder
from mlbench.grafana import Grafana, GrafanaError

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


class GrafanaPusher:
    """Pushes once, and tries again until Grafana has taken everything."""

    def __init__(self, settings: GrafanaSettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._requests = Counter(
            "mlbench_grafana_requests_total",
            "Requests to Grafana, by how they went.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("done", "failed"):
            self._requests.labels(outcome)

    def run(self, stop: threading.Event) -> None:
        """Push, with growing pauses between attempts; return when done or told to stop."""
        pause, last_message = 0.0, ""
        while not stop.wait(pause):
            try:
                self._push()
                return
            except GrafanaError as error:
                if str(error) != last_message:
                    log.warning("%s; runs go on, and it is tried again", error)
                last_message = str(error)
            pause = min(max(pause * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)

    def _push(self) -> None:
        settings = self._settings
        dashboards = grafana_folder() / "dashboards"
        with Grafana(settings.url, settings.token, self._count) as grafana:
            done = grafana.push(dashboards, settings.prometheus_url, settings.scrape_interval)
        log.info("pushed to Grafana at %s: %s", settings.url, done)

    def _count(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()
