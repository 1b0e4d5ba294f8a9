"""Reading what a rank wrote to stdout and stderr, a piece at a time.

Offsets count bytes. A piece's text is what its bytes say, from ``start`` to before ``offset``, and
pieces that follow each other make the whole: none begins or ends within a character.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from master.models import Run, Stream, run_owner
from master.recording.streams import read
from mlbench.errors import MLBenchError

# One answer holds at most this much; a reader goes on from its `offset`.
_PAGE_BYTES = 1 << 20
# The last lines of a stream are looked for in this much of its end.
_TAIL_BYTES = 64 << 10
# Upwards, a reader gets at most this much at a time.
_BEFORE_BYTES = 256 << 10
# What the later bytes of a character are, of which it has at most three.
_LATER = range(0x80, 0xC0)
_MOST_LATER = 3


class LogGoneError(MLBenchError):
    """A log was deleted while it was read."""


@dataclass(frozen=True)
class Log:
    """One of the two streams of a rank's attempt, as long as it was when it was found."""

    attempt: int
    stream: Stream | None
    """None if nothing was written yet."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return int(self.stream.size) if self.stream else 0

    @property
    def ended(self) -> bool:
        """Whether the process has ended, and all that it wrote is held."""
        return self.stream is not None and self.stream.size == self.stream.final_size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to before ``end``, as far as they were held."""
        return read(self.stream, start, min(end, self.size)) if self.stream else b""


@dataclass(frozen=True)
class LogPage:
    """A piece of a log: its text, and the bytes that it stands for."""

    attempt: int
    text: str
    start: int
    """The offset of the text's first byte."""
    offset: int
    """Where the next piece begins."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the process has ended and this is the last piece."""


def find(run: Run, rank: int, name: str, attempt: int | None = None) -> Log:
    """Return what a rank wrote to the stream of this name, in the latest attempt or another."""
    attempt = run.attempt if attempt is None else attempt
    found = Stream.get_or_none(owner=run_owner(run.id), attempt=attempt, rank=rank, name=name)
    return Log(attempt, found)


def page(log: Log, offset: int) -> LogPage:
    """Return what there is from an offset on."""
    start = min(offset, log.size)
    return _to_page(log, start, log.read(start, start + _PAGE_BYTES))


def tail(log: Log, lines: int) -> LogPage:
    """Return the last lines."""
    start = max(0, log.size - _TAIL_BYTES)
    data = log.read(start, log.size)
    data = data[_character_start(data) if start else 0 :]
    data = b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
    return _to_page(log, log.size - len(data), data)


def before(log: Log, end: int) -> LogPage:
    """Return the lines that end at an offset: whole ones, unless one is longer than an answer."""
    end = min(end, log.size)
    start = max(0, end - _BEFORE_BYTES)
    data = log.read(start, end)
    if start:
        # The line that begins before the data; the byte before tells if none does.
        first = (log.read(start - 1, start) + data).find(b"\n", 0, len(data))
        cut = _character_start(data) if first < 0 else first
        start, data = start + cut, data[cut:]
    # What follows is known to the reader: nothing is left to it.
    return _to_page(log, start, data, whole=end < log.size)


def whole(log: Log) -> Iterator[bytes]:
    """Yield all bytes of a log, as it was when it was found.

    Raises:
        LogGoneError: it was deleted meanwhile.
    """
    position = 0
    while position < log.size:
        data = log.read(position, position + _PAGE_BYTES)
        if not data:
            raise LogGoneError(f"the log was deleted while it was read, at byte {position}")
        yield data
        position += len(data)


def _to_page(log: Log, start: int, data: bytes, *, whole: bool = False) -> LogPage:
    """Return the piece that begins with ``data``; a character cut off is left to the next one.

    ``whole`` says that the piece must end with the data.
    """
    end = start + len(data)
    complete = log.ended and end == log.size
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=whole or complete)
    cut, _ = decoder.getstate()
    return LogPage(log.attempt, text, start, end - len(cut), log.size, complete)


def _character_start(data: bytes) -> int:
    """Return the position of the first byte that does not go on with a character before."""
    later = 0
    while later < min(_MOST_LATER, len(data)) and data[later] in _LATER:
        later += 1
    return later
