"""Reflector: follows objects of a cluster by list and watch, never by the watch alone."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from mlbench.local.backoff import Backoff
from mlbench_master.pools.kubernetes_api import Api, KubernetesApiError
from mlbench_master.pools.manifests import Object

log = logging.getLogger(__name__)

# Duration of a watch, even if it is silent. Then everything is listed again, so that a change which
# a watch has missed is known within 30 s.
_WATCH_SECONDS = 14
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 10.0
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)

Seen = TypeVar("Seen")


class Reflector(Generic[Seen]):
    """Follows the objects at a path of the cluster's API."""

    def __init__(
        self,
        api: Api,
        path: str,
        selector: Mapping[str, str],
        read: Callable[[Object], Seen],
        changed: Callable[[], None],
    ) -> None:
        """Store the settings; nothing is requested yet.

        Args:
            api: the cluster's API.
            path: path of a kind of object.
            selector: query that selects objects of this kind.
            read: converts an object to a record.
            changed: called whenever something may have changed.
        """
        self._api = api
        self._path = path
        self._selector = dict(selector)
        self._read = read
        self._changed = changed
        self.seen: dict[str, Seen] | None = None
        """Records by name, as last reported; None before the first list."""
        self.trouble = ""
        """Why the objects cannot be read at present; empty if they can."""

    def start(self, stop: threading.Event) -> None:
        """Start the thread, which runs until ``stop`` is set."""
        threading.Thread(
            target=self._run, args=(stop,), name=f"reflect {self._path}", daemon=True
        ).start()

    def _run(self, stop: threading.Event) -> None:
        backoff = Backoff(_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        while not stop.is_set():
            began = time.monotonic()
            retry_seconds = 0.0
            try:
                self._follow()
            except KubernetesApiError as error:
                retry_seconds = min(error.retry_seconds, _MAX_BACKOFF_SECONDS)
            except Exception:
                # If this thread ended, outdated records would count as current.
                log.exception("reading the cluster failed (%s), trying again", self._path)
            if time.monotonic() - began > _WATCH_SECONDS / 2:
                backoff.reset()
                continue
            stop.wait(max(backoff.seconds(), retry_seconds))

    def _follow(self) -> None:
        """List all objects, then follow their changes for the duration of a watch."""
        try:
            listing = self._api.get(self._path, **self._selector)
            version: str = listing["metadata"]["resourceVersion"]
            self.seen = {item["metadata"]["name"]: self._read(item) for item in listing["items"]}
        except KubernetesApiError as error:
            self._note_trouble(str(error))
            raise
        except _UNREADABLE as error:
            self._note_trouble(f"cannot read its response: {error!r}")
            raise KubernetesApiError(0, self.trouble) from error
        self._note_trouble("")
        self._changed()
        until = time.monotonic() + _WATCH_SECONDS
        query = {**self._selector, "resourceVersion": version}
        for kind, item in self._api.watch(self._path, query, _WATCH_SECONDS):
            try:
                name = item["metadata"]["name"]
                # Other threads read the records, so they are replaced, never changed.
                seen = {key: record for key, record in (self.seen or {}).items() if key != name}
                if kind != "DELETED":
                    seen[name] = self._read(item)
            except _UNREADABLE as error:
                raise KubernetesApiError(0, f"cannot read an event: {error!r}") from error
            self.seen = seen
            self._changed()
            if time.monotonic() > until:
                return

    def _note_trouble(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("cannot read the cluster (%s): %s", self._path, trouble)
        if self.trouble and not trouble:
            log.info("reading the cluster works again (%s)", self._path)
        self.trouble = trouble
