"""Following runs in a Grafana: pushes once, then annotates what runs do; its troubles are its own.

It keeps no notes: the database says what there should be, Grafana what there is.
"""

import logging
import threading
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter

from master.grafana.annotations import RunEvent, events_of, newest_runs, write_missing
from master.grafana.client import Grafana, GrafanaError, UnavailableError
from master.grafana.push import push
from master.settings import GrafanaSettings
from mlbench.assets import grafana_folder

log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


def count_requests(registry: CollectorRegistry) -> Callable[[str], None]:
    """Return what counts the requests to Grafana by their outcome."""
    requests = Counter(
        "mlbench_grafana_requests_total",
        "Requests to Grafana, by how they went.",
        ("outcome",),
        registry=registry,
    )
    for outcome in ("done", "failed"):
        requests.labels(outcome)
    return lambda outcome: requests.labels(outcome).inc()


class Follower:
    """Keeps one Grafana up to date. One thread runs it; it may end at any instruction."""

    def __init__(self, settings: GrafanaSettings, count: Callable[[str], None]) -> None:
        self._settings = settings
        self._count = count
        self._trouble = ""
        self._pushed = False
        self._told: set[RunEvent] = set()
        """Events whose annotations Grafana was seen to have."""

    def run(self, stop: threading.Event) -> None:
        """Follow until told to stop. Nothing that Grafana does ends it."""
        pause = 0.0
        while not stop.wait(pause):
            try:
                self._follow()
                pause = _LOOK_SECONDS
                self._note("")
            except Exception as error:
                pause = min(max(pause * 2, _LOOK_SECONDS), _LONGEST_PAUSE_SECONDS)
                self._note_error(error)

    def _follow(self) -> None:
        events = [event for run in newest_runs() for event in events_of(run)]
        self._told.intersection_update(events)
        behind = {event.run_id for event in events if event not in self._told}
        if self._pushed and not behind:
            return
        grafana = Grafana(self._settings.url, self._settings.token, self._count)
        try:
            self._bring(grafana, [event for event in events if event.run_id in behind])
        finally:
            grafana.close()

    def _bring(self, grafana: Grafana, events: list[RunEvent]) -> None:
        refused: GrafanaError | None = None
        if not self._pushed:
            try:
                self._push(grafana)
            except UnavailableError:
                raise
            except GrafanaError as error:
                # A token that may not change dashboards may still annotate.
                refused = error
        for _, of_one_run in groupby(events, key=attrgetter("run_id")):
            batch = list(of_one_run)
            write_missing(grafana, batch)
            self._told.update(batch)
        if refused:
            raise refused

    def _push(self, grafana: Grafana) -> None:
        settings = self._settings
        dashboards = grafana_folder() / "dashboards"
        done = push(grafana, dashboards, settings.prometheus_url, settings.scrape_interval)
        self._pushed = True
        log.info("pushed to Grafana at %s: %s", grafana.url, done)

    def _note_error(self, error: Exception) -> None:
        if not isinstance(error, GrafanaError):
            log.error("following runs in Grafana failed, trying again", exc_info=error)
            return
        if isinstance(error, UnavailableError):
            # It may come back empty.
            self._pushed = False
            self._told.clear()
        self._note(str(error))

    def _note(self, trouble: str) -> None:
        """Log when there is a trouble, another one, or none any more."""
        if trouble == self._trouble:
            return
        if trouble:
            log.warning("%s; runs go on, and it is tried again", trouble)
        else:
            log.info("Grafana at %s works again", self._settings.url)
        self._trouble = trouble
