"""Reading what a rank wrote to stdout and stderr, a piece at a time.

Offsets count bytes. A piece's text is what its bytes say, from ``start`` to before ``offset``, and
pieces that follow each other make the whole: none begins or ends within a character. For what was
left out of a long log stands a line that says how much it is.
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

    @property
    def gap(self) -> tuple[int, int]:
        """Where what was left out begins and ends; nothing was if both are the same."""
        return (self.stream.gap_start, self.stream.gap_end) if self.stream else (0, 0)

    @property
    def length(self) -> int | None:
        """Bytes of the whole as ``whole`` yields it; None as long as it may change meanwhile."""
        gap_start, gap_end = self.gap
        if gap_end and not self.ended:
            return None
        return self.size - (gap_end - gap_start) + len(self.left_out(gap_start).encode())

    def part(self, position: int) -> tuple[int, int]:
        """Return the bounds of the start, the gap or the end of the log, whichever goes on here."""
        gap_start, gap_end = self.gap
        if gap_start == gap_end or position >= gap_end:
            return gap_end, self.size
        return self.gap if position >= gap_start else (0, gap_start)

    def left_out(self, start: int, end: int | None = None) -> str:
        """Return the line for what was left out between two offsets; empty where nothing was."""
        gap_start, gap_end = self.gap
        count = min(gap_end, gap_end if end is None else end) - max(start, gap_start)
        if count <= 0:
            return ""
        newline = "" if self.read(gap_start - 1, gap_start) == b"\n" else "\n"
        return f"{newline}… {count:,} bytes left out here …\n"

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to before ``end``, up to the first that is not held."""
        if self.stream is None or self.part(start) == self.gap != (0, 0):
            return b""
        return read(self.stream, start, min(end, self.part(start)[1]))


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
    if text := log.left_out(start) if start in range(*log.gap) else "":
        # A character that was cut off is left out as well.
        _, end = log.gap
        end += _character_start(log.read(end, end + _MOST_LATER))
        return LogPage(log.attempt, text, start, end, log.size, log.ended and end == log.size)
    return _to_page(log, start, log.read(start, start + _PAGE_BYTES))


def tail(log: Log, lines: int) -> LogPage:
    """Return the last lines."""
    floor, _ = log.part(log.size)
    start = max(floor, log.size - _TAIL_BYTES)
    data = log.read(start, log.size)
    data = data[_character_start(data) if start else 0 :]
    data = b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""
    return _to_page(log, log.size - len(data), data)


def before(log: Log, end: int) -> LogPage:
    """Return the lines that end at an offset: whole ones, unless one is longer than an answer."""
    end = min(end, log.size)
    floor, _ = log.part(max(0, end - 1))
    if text := log.left_out(floor, end) if floor in range(*log.gap) else "":
        return LogPage(log.attempt, text, floor, end, log.size, False)
    start = max(floor, end - _BEFORE_BYTES)
    data = log.read(start, end)
    if start > floor:
        # The line that begins before the data; the byte before tells if none does.
        first = (log.read(start - 1, start) + data).find(b"\n", 0, len(data))
        cut = _character_start(data) if first < 0 else first
        start, data = start + cut, data[cut:]
    # What follows is known to the reader: nothing is left to it.
    return _to_page(log, start, data, whole=end < log.size)


def whole(log: Log) -> Iterator[bytes]:
    """Yield all bytes of a log, as long as it was when it was found.

    Of one that had a gap already, what is left out meanwhile is missing as well, and said to be.

    Raises:
        LogGoneError: it was deleted meanwhile, or got its first gap.
    """
    position, end = 0, log.size
    while position < end:
        if text := log.left_out(position) if position in range(*log.gap) else "":
            yield text.encode()
            _, position = log.gap
        elif data := log.read(position, min(position + _PAGE_BYTES, end)):
            yield data
            position += len(data)
        else:
            log = _look_again(log, position)


def _look_again(log: Log, position: int) -> Log:
    """Return a log of which a byte is not held any more, as it is now.

    Raises:
        LogGoneError: it was deleted, or is not as long any more as was said.
    """
    assert log.stream is not None
    # A deleted one belongs to somebody else, as long as it is there at all.
    stream = Stream.get_or_none(Stream.id == log.stream.id, Stream.owner == log.stream.owner)
    found = Log(log.attempt, stream)
    if log.length is None and position in range(*found.gap):
        return found
    raise LogGoneError(f"the log was deleted while it was read, at byte {position}")


def _to_page(log: Log, start: int, data: bytes, *, whole: bool = False) -> LogPage:
    """Return the piece that begins with ``data``; a character cut off is left to the next one.

    ``whole`` says that the piece must end with the data.
    """
    end = start + len(data)
    complete = log.ended and end == log.size
    gap_start, gap_end = log.gap
    whole = whole or complete or (end == gap_start < gap_end)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=whole)
    cut, _ = decoder.getstate()
    return LogPage(log.attempt, text, start, end - len(cut), log.size, complete)


def _character_start(data: bytes) -> int:
    """Return the position of the first byte that does not go on with a character before."""
    later = 0
    while later < min(_MOST_LATER, len(data)) and data[later] in _LATER:
        later += 1
    return later
