"""A reflector keeps up with objects of a cluster, by list and watch, never by the watch alone."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from mlbench.local.backoff import Backoff
from mlbench_master.pools.api import Api, ApiError
from mlbench_master.pools.manifests import Object

log = logging.getLogger(__name__)

# A watch lasts this long, even if it is silent. Then everything is listed again, so that what a
# watch has missed is known within 30 s.
_WATCH_SECONDS = 14
_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 10.0
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)

Seen = TypeVar("Seen")


class Reflector(Generic[Seen]):
    """Keeps up with the objects at a path, as far as the cluster tells."""

    def __init__(
        self,
        api: Api,
        path: str,
        selector: Mapping[str, str],
        read: Callable[[Object], Seen],
        changed: Callable[[], None],
    ) -> None:
        """Prepare to look.

        Args:
            api: the cluster's API.
            path: the path of a kind of object.
            selector: the query that selects some of them.
            read: makes a record of an object.
            changed: is called whenever something may have changed.
        """
        self._api = api
        self._path = path
        self._selector = dict(selector)
        self._read = read
        self._changed = changed
        self.seen: dict[str, Seen] | None = None
        """The objects by name, as last heard of; None before the first list."""
        self.trouble = ""
        """Why nothing can be seen now; empty if it can."""

    def start(self, stop: threading.Event) -> None:
        """Look until told to stop, in a thread."""
        threading.Thread(
            target=self._run, args=(stop,), name=f"reflect {self._path}", daemon=True
        ).start()

    def _run(self, stop: threading.Event) -> None:
        backoff = Backoff(_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS)
        while not stop.is_set():
            began = time.monotonic()
            retry_seconds = 0.0
            try:
                self._watch(self._list())
            except ApiError as error:
                retry_seconds = min(error.retry_seconds, _LONGEST_BACKOFF_SECONDS)
            except Exception:
                # If this thread ended, the past would be taken for the present.
                log.exception("looking at the cluster failed (%s), trying again", self._path)
            if time.monotonic() - began > _WATCH_SECONDS / 2:
                backoff.reset()
                continue
            stop.wait(max(backoff.seconds(), retry_seconds))

    def _list(self) -> str:
        """List everything, and return the version that this was."""
        try:
            answer = self._api.get(self._path, **self._selector)
            version: str = answer["metadata"]["resourceVersion"]
            seen = {item["metadata"]["name"]: self._read(item) for item in answer["items"]}
        except ApiError as error:
            self._note_trouble(str(error))
            raise
        except _UNREADABLE as error:
            self._note_trouble(f"its answer cannot be read: {error!r}")
            raise ApiError(0, self.trouble) from error
        self._note_trouble("")
        self._take(seen)
        return version

    def _watch(self, version: str) -> None:
        until = time.monotonic() + _WATCH_SECONDS
        query = {**self._selector, "resourceVersion": version}
        for kind, changed in self._api.watch(self._path, query, _WATCH_SECONDS):
            try:
                name = changed["metadata"]["name"]
                seen = {key: item for key, item in (self.seen or {}).items() if key != name}
                if kind != "DELETED":
                    seen[name] = self._read(changed)
            except _UNREADABLE as error:
                raise ApiError(0, f"an event cannot be read: {error!r}") from error
            self._take(seen)
            if time.monotonic() > until:
                return

    def _take(self, seen: dict[str, Seen]) -> None:
        self.seen = seen
        self._changed()

    def _note_trouble(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("the cluster cannot be seen (%s): %s", self._path, trouble)
        if self.trouble and not trouble:
            log.info("the cluster can be seen again (%s)", self._path)
        self.trouble = trouble
