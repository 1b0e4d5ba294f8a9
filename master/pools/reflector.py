"""A reflector: what there is in a cluster, by list and watch, never trusting the watch alone."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from master.pools.api import Api, ApiError
from master.pools.objects import Object

log = logging.getLogger(__name__)

# A watch lasts this long, also a silent one; then everything is listed again: at least every 30 s.
_WATCH_SECONDS = 14
_FIRST_PATIENCE_SECONDS = 0.5
_LONGEST_PATIENCE_SECONDS = 10.0
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
            api: where to look.
            path: the path of the objects' kind.
            selector: the query that selects some of them.
            read: makes of an object what is to be known of it.
            changed: is called whenever something may have changed.
        """
        self._api = api
        self._path = path
        self._selector = dict(selector)
        self._read = read
        self._changed = changed
        self._seen: dict[str, Seen] | None = None
        self._trouble = ""

    def start(self, stop: threading.Event) -> None:
        """Begin to look, until told to stop."""
        threading.Thread(
            target=self._run, args=(stop,), name=f"reflect {self._path}", daemon=True
        ).start()

    def seen(self) -> dict[str, Seen] | None:
        """Return the objects by name, as last heard of; None before the first list."""
        return self._seen

    def trouble(self) -> str:
        """Return in words why nothing can be seen now; empty if it can."""
        return self._trouble

    def _run(self, stop: threading.Event) -> None:
        patience = _FIRST_PATIENCE_SECONDS
        while not stop.is_set():
            began = time.monotonic()
            asked_to_wait = 0.0
            try:
                self._watch(self._list())
            except ApiError as error:
                asked_to_wait = min(error.retry_seconds, _LONGEST_PATIENCE_SECONDS)
            except Exception:
                # Who does not look any more would take what was for what is.
                log.exception("looking at the cluster failed (%s), trying again", self._path)
            if time.monotonic() - began > _WATCH_SECONDS / 2:
                patience = _FIRST_PATIENCE_SECONDS
                continue
            stop.wait(max(patience, asked_to_wait))
            patience = min(2 * patience, _LONGEST_PATIENCE_SECONDS)

    def _list(self) -> str:
        """Take in everything, and return the version that this was.

        Raises:
            ApiError: it cannot be listed; said in the log when that begins.
        """
        try:
            found = self._api.get(self._path, **self._selector)
            version: str = found["metadata"]["resourceVersion"]
            seen = {item["metadata"]["name"]: self._read(item) for item in found["items"]}
        except ApiError as error:
            self._note_trouble(str(error))
            raise
        except _UNREADABLE as error:
            self._note_trouble(f"its answer cannot be read: {error!r}")
            raise ApiError(0, self._trouble) from error
        self._note_trouble("")
        self._take(seen)
        return version

    def _watch(self, version: str) -> None:
        """Take in what changes, for a while.

        Raises:
            ApiError: the watch broke off, or its version is too old: all is listed again.
        """
        until = time.monotonic() + _WATCH_SECONDS
        query = {**self._selector, "resourceVersion": version}
        for kind, changed in self._api.watch(self._path, query, _WATCH_SECONDS):
            try:
                name = changed["metadata"]["name"]
                seen = {key: one for key, one in (self._seen or {}).items() if key != name}
                if kind != "DELETED":
                    seen[name] = self._read(changed)
            except _UNREADABLE as error:
                raise ApiError(0, f"an event cannot be read: {error!r}") from error
            self._take(seen)
            if time.monotonic() > until:
                return

    def _take(self, seen: dict[str, Seen]) -> None:
        self._seen = seen
        self._changed()

    def _note_trouble(self, trouble: str) -> None:
        """Say in the log what is wrong when that begins, and when it is over."""
        if trouble and not self._trouble:
            log.warning("the cluster cannot be seen (%s): %s", self._path, trouble)
        if self._trouble and not trouble:
            log.info("the cluster can be seen again (%s)", self._path)
        self._trouble = trouble
