"""Calls about what ranks wrote to stdout and stderr, and what comes back."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, BinaryIO

from mlbench.client.answers import Answer
from mlbench.client.asking import Asker, path_part
from mlbench.client.records import known
from mlbench.client.transport import Param, Transport
from mlbench.names import StreamName


@dataclass(frozen=True)
class LogPage:
    """A piece of a rank's log."""

    rank: int
    stream: str
    attempt: int
    text: str
    start: int
    """Where the text begins, in bytes."""
    offset: int
    """Where the next piece begins, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether this is the last piece there will be."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "LogPage":
        """Return the piece that the API describes."""
        return cls(**known(cls, fields))


@dataclass(frozen=True)
class LogMatch:
    """A line that has the text that was looked for."""

    offset: int
    """Where the line begins, in bytes."""
    text: str
    """The line, cut at 500 characters."""


@dataclass(frozen=True)
class LogSearch:
    """The lines of a rank's log, from an offset on, that have a text."""

    rank: int
    stream: str
    attempt: int
    matches: tuple[LogMatch, ...]
    start: int
    """Where the search began, in bytes."""
    offset: int
    """Where to go on, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether all that there is by now was looked through."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "LogSearch":
        """Return what the API has found."""
        matches = tuple(LogMatch(**known(LogMatch, match)) for match in fields["matches"])
        return cls(**{**known(cls, fields), "matches": matches})


class LogCalls:
    """What ``ApiClient`` asks about logs.

    In all calls, ``attempt`` says which attempt's log is meant; by default it is the latest one's.
    """

    _asker: Asker
    _transport: Transport

    def get_logs(
        self,
        run_id: int | str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        tail: int | None = None,
        before: int | None = None,
        attempt: int | None = None,
    ) -> Future[Answer[LogPage]]:
        """Ask for a piece of a rank's log.

        Args:
            run_id: the run.
            rank: who wrote it.
            stream: what it was written to.
            offset: the piece that begins at this byte.
            tail: instead, the last lines, this many.
            before: instead, the lines that end at this byte, as many as one answer has.
            attempt: of the run.
        """
        wish = {"before": before, "tail": tail if before is None else None}
        if before is None and tail is None:
            wish["offset"] = offset
        params = _params(rank, stream, attempt, **wish)
        return self._asker.ask("GET", _path(run_id), LogPage.from_fields, params=params)

    def search_logs(
        self,
        run_id: int | str,
        text: str,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        offset: int = 0,
        attempt: int | None = None,
    ) -> Future[Answer[LogSearch]]:
        """Ask for the lines from an offset on that have a text, whatever the case of its letters.

        One answer has the first ones; ask again from its ``offset`` unless it is ``complete``.
        """
        params = _params(rank, stream, attempt, search=text, offset=offset)
        return self._asker.ask("GET", _path(run_id), LogSearch.from_fields, params=params)

    def download_log(
        self,
        run_id: int | str,
        file: BinaryIO,
        rank: int = 0,
        stream: StreamName = "stdout",
        *,
        attempt: int | None = None,
        on_progress: Callable[[int, int | None], None] = lambda received, total: None,
    ) -> int:
        """Write a rank's whole log to a file piece by piece, in this thread; return how many bytes.

        Args:
            run_id: the run.
            file: where to, open for writing. After an error it holds a part of the log.
            rank: who wrote it.
            stream: what it was written to.
            attempt: of the run.
            on_progress: called after each piece with the bytes received so far, and with all
                there will be, if the master says.

        Raises:
            ApiError: the master refuses.
            NoAnswerError: it is away, or broke off.
        """
        params = _params(rank, stream, attempt, format="text")
        return self._transport.download(_path(run_id), params, file, on_progress)


def _path(run_id: int | str) -> str:
    return f"/api/runs/{path_part(run_id)}/logs/"


def _params(
    rank: int, stream: StreamName, attempt: int | None, **wish: str | int | None
) -> dict[str, Param]:
    given = {"rank": rank, "stream": stream, "attempt": attempt, **wish}
    return {name: value for name, value in given.items() if value is not None}
