"""Push the dashboards to the user's Grafana when the controller starts."""

import logging
import threading

from prometheus_client import CollectorRegistry, Counter

from mlbench.local.assets import grafana_folder
from mlbench.local.backoff import Backoff
from mlbench.local.grafana_api import Grafana, GrafanaError
from mlbench_master.settings import GrafanaSettings

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 2.0
_MAX_PAUSE_SECONDS = 60.0


def push(settings: GrafanaSettings, registry: CollectorRegistry, stop: threading.Event) -> None:
    """Push until Grafana has accepted everything, with growing pauses between attempts."""
    requests = Counter(
        "mlbench_grafana_requests_total",
        "Requests to Grafana, by how they went.",
        ("outcome",),
        registry=registry,
    )
    for outcome in ("done", "failed"):
        requests.labels(outcome)
    backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
    pause, last_message = 0.0, ""
    while not stop.wait(pause):
        try:
            with Grafana(
                settings.url, settings.token, lambda o: requests.labels(o).inc()
            ) as grafana:
                folder = grafana_folder() / "dashboards"
                done = grafana.push(folder, settings.prometheus_url, settings.scrape_interval)
            log.info("pushed to Grafana at %s: %s", settings.url, done)
            return
        except GrafanaError as error:
            if str(error) != last_message:
                log.warning("%s. Runs are not affected. Trying again.", error)
            last_message = str(error)
        pause = backoff.seconds()
