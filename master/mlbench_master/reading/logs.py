"""Reading and searching what a rank wrote to stdout and stderr, a piece at a time.

Offsets count bytes. A page is the text of the bytes from ``start`` to before ``offset``, and pages
that follow each other make the whole: none begins or ends within a character. The gap of a long log
reads as a line that says how much was left out.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from mlbench.contract.errors import MLBenchError
from mlbench.contract.records import LogMatch, LogPage, LogSearch
from mlbench_master.database.models import Run, Stream, run_owner
from mlbench_master.recording.streams import read

# The most bytes of a page, of one read upwards, and of the last lines.
_PAGE_BYTES = 1 << 20
_BEFORE_BYTES = 256 << 10
_TAIL_BYTES = 64 << 10
# UTF-8: the bytes of a character after its first, of which it has at most three.
_CONTINUATION = range(0x80, 0xC0)
_MAX_CONTINUATION = 3
_CHARACTER_BYTES = 4
# The most bytes that one answer searches, its most matches, and the most characters of one.
_SEARCHED_BYTES = 32 << 20
_MATCHES = 200
_SHOWN_CHARACTERS = 500
# Bytes that are searched at a time, so that memory does not grow with the log or its lines.
_SEARCH_PIECE = 256 << 10


class LogGoneError(MLBenchError):
    """A log was deleted while it was read."""


@dataclass(frozen=True)
class Log:
    """Stdout or stderr of one attempt of a rank, with the length it had when it was found."""

    rank: int
    name: str
    attempt: int
    stream: Stream | None
    """None if nothing was written yet."""

    @property
    def size(self) -> int:
        """Bytes held."""
        return int(self.stream.size) if self.stream else 0

    @property
    def ended(self) -> bool:
        """Whether the process has ended and all its output is held."""
        return self.stream is not None and self.stream.size == self.stream.final_size

    @property
    def gap(self) -> tuple[int, int]:
        """Start and end of the omitted part of the log; equal if nothing was omitted."""
        return (self.stream.gap_start, self.stream.gap_end) if self.stream else (0, 0)

    @property
    def length(self) -> int | None:
        """Bytes that ``whole`` yields; None if they may change while it is read."""
        gap_start, gap_end = self.gap
        if gap_end and not self.ended:
            return None
        return self.size - (gap_end - gap_start) + len(self.left_out(gap_start).encode())

    def part(self, position: int) -> tuple[int, int]:
        """Return the bounds of the part (before, in or after the gap) that has this position."""
        gap_start, gap_end = self.gap
        if gap_start == gap_end or position >= gap_end:
            return gap_end, self.size
        return self.gap if position >= gap_start else (0, gap_start)

    def left_out(self, start: int, end: int | None = None) -> str:
        """Return the line that replaces the gap from ``start`` on; empty if that is not in it."""
        gap_start, gap_end = self.gap
        count = min(gap_end, gap_end if end is None else end) - start
        if start < gap_start or count <= 0:
            return ""
        newline = "" if self.read(gap_start - 1, gap_start) == b"\n" else "\n"
        return f"{newline}… {count:,} bytes left out here …\n"

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to before ``end``, up to the first not held."""
        if self.stream is None or self.part(start) == self.gap != (0, 0):
            return b""
        return read(self.stream, start, min(end, self.part(start)[1]))


def find(run: Run, rank: int, name: str, attempt: int | None = None) -> Log:
    """Find a rank's stream in the latest attempt, or in another one."""
    attempt = run.attempt if attempt is None else attempt
    found = Stream.get_or_none(owner=run_owner(run.id), attempt=attempt, rank=rank, name=name)
    return Log(rank, name, attempt, found)


def page(log: Log, offset: int) -> LogPage:
    """Return the page that begins at an offset."""
    start = min(offset, log.size)
    if text := log.left_out(start):
        # The rest of a character that the gap cuts is left out too.
        _, end = log.gap
        end += _character_start(log.read(end, end + _MAX_CONTINUATION))
        return _page(log, text, start, end, complete=log.ended and end == log.size)
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
    """Return the lines up to an offset: whole ones, unless one is longer than a page."""
    end = min(end, log.size)
    floor, _ = log.part(max(0, end - 1))
    if text := log.left_out(floor, end):
        return _page(log, text, floor, end)
    start = max(floor, end - _BEFORE_BYTES)
    data = log.read(start, end)
    if start > floor:
        # Skip the line that begins before the data; the byte before tells whether one does.
        first = (log.read(start - 1, start) + data).find(b"\n", 0, len(data))
        cut = _character_start(data) if first < 0 else first
        start, data = start + cut, data[cut:]
    # The reader has the following page already, which takes no more bytes.
    return _to_page(log, start, data, whole=end < log.size)


def whole(log: Log) -> Iterator[bytes]:
    """Yield all bytes of a log, up to the length that it had when it was found.

    If it had a gap already, the gap may grow while it is read.

    Raises:
        LogGoneError: the log was deleted meanwhile, or got its first gap.
    """
    position, end = 0, log.size
    while position < end:
        if text := log.left_out(position):
            yield text.encode()
            _, position = log.gap
        elif data := log.read(position, min(position + _PAGE_BYTES, end)):
            yield data
            position += len(data)
        else:
            assert log.stream is not None
            # A deleted stream gets another owner before it is swept.
            key = Stream.id == log.stream.id, Stream.owner == log.stream.owner
            log = replace(log, stream=Stream.get_or_none(*key))
            # With an announced length, nothing may be missing.
            if log.length is not None or position not in range(*log.gap):
                raise LogGoneError(f"the log was deleted while it was read, at byte {position}")


def _page(log: Log, text: str, start: int, offset: int, *, complete: bool = False) -> LogPage:
    return LogPage(log.rank, log.name, log.attempt, text, start, offset, log.size, complete)


def _to_page(log: Log, start: int, data: bytes, *, whole: bool = False) -> LogPage:
    """Make a page of ``data``; a cut character at its end is left to the next page.

    With ``whole``, the page takes all of the data.
    """
    end = start + len(data)
    complete = log.ended and end == log.size
    gap_start, gap_end = log.gap
    whole = whole or complete or (end == gap_start < gap_end)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=whole)
    cut, _ = decoder.getstate()
    return _page(log, text, start, end - len(cut), complete=complete)


def _character_start(data: bytes) -> int:
    """Return the position of the first byte that begins a character."""
    position = 0
    while position < min(_MAX_CONTINUATION, len(data)) and data[position] in _CONTINUATION:
        position += 1
    return position


def search(log: Log, text: str, offset: int) -> LogSearch:
    """Search the lines from an offset on, up to the limits of a response, ignoring case.

    An unfinished line is searched, and again from its start by the next search. If a line is longer
    than one search, the next search treats its rest as a line. The gap of a long log is not
    searched.
    """
    needle = text.casefold()
    start = position = min(offset, log.size)
    matches: list[LogMatch] = []
    complete = False
    while (
        not complete
        and len(matches) < _MATCHES
        and position - start <= _SEARCHED_BYTES - _SEARCH_PIECE
    ):
        if position in range(*log.gap):
            _, position = log.gap
        data = log.read(position, position + _SEARCH_PIECE)
        lines = data[: data.rfind(b"\n") + 1]
        if lines:
            room = _MATCHES - len(matches)
            hits = list(islice(_matching(lines, needle), room))
            matches += [LogMatch(position + at, _show(line)) for at, line in hits]
            at, line = hits[-1] if len(hits) == room else (0, lines[:-1])
            position += at + len(line) + 1
        else:
            is_found, end, has_ended = _search_line(log, needle, position, start + _SEARCHED_BYTES)
            if end == position < log.size:
                break  # the log was deleted meanwhile
            if is_found:
                head = log.read(position, position + _SHOWN_CHARACTERS * _CHARACTER_BYTES)
                matches.append(LogMatch(position, _show(head)))
            complete = end == log.size
            position = end if has_ended else position
    where = (log.rank, log.name, log.attempt)
    return LogSearch(*where, tuple(matches), start, position, log.size, complete)


def _search_line(log: Log, needle: str, start: int, limit: int) -> tuple[bool, int, bool]:
    """Search the line that begins at ``start``, however long it is, up to a limit.

    Returns whether the text was found, where the search ended, and whether the line has ended.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    matches, text, position, newline = False, "", start, b""
    while not newline and (data := log.read(position, min(position + _SEARCH_PIECE, limit))):
        line, newline, _ = data.partition(b"\n")
        # A match may begin in one piece and end in the next.
        text = text[-len(needle) :] + decoder.decode(line).casefold()
        matches = matches or needle in text
        position += len(line) + len(newline)
    matches = matches or needle in text + decoder.decode(b"", final=True)
    return matches, position, bool(newline or log.ended or position < log.size)


def _matching(lines: bytes, needle: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that contain the text, without their ends, and where each begins."""
    folded = lines.decode(errors="replace").casefold()
    if needle not in folded:
        return
    position = 0
    for line, folded_line in zip(lines.split(b"\n"), folded.split("\n"), strict=True):
        if needle in folded_line:
            yield position, line
        position += len(line) + 1


def _show(line: bytes) -> str:
    head = line[: _SHOWN_CHARACTERS * _CHARACTER_BYTES].partition(b"\n")[0].removesuffix(b"\r")
    return head.decode(errors="replace")[:_SHOWN_CHARACTERS]
