"""Looking for a text in what a rank wrote, line by line: case does not count."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from master.reading.logs import Log

# One answer looks through so many bytes at most, and has so many matches at most.
_SCANNED = 32 << 20
_MATCHES = 200
# Bytes that are read at a time, so that memory does not grow with the log or its lines.
_PIECE = 256 << 10
_SHOWN_CHARACTERS = 500
# A character has at most so many.
_CHARACTER_BYTES = 4


@dataclass(frozen=True)
class Match:
    """A line that has the text."""

    offset: int
    """Of the line's first byte."""
    text: str
    """The line without its end, cut at 500 characters."""


@dataclass(frozen=True)
class LogSearch:
    """The lines found in a part of a log."""

    attempt: int
    matches: list[Match]
    start: int
    """Where the search began."""
    offset: int
    """Where to go on."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether all that is there from ``start`` on was looked through."""


def search(log: Log, text: str, offset: int) -> LogSearch:
    """Return the lines from an offset on that have the text, as many as one answer may have.

    A line that has not ended yet is looked through, and again by who goes on. Of a line that is
    longer than one answer looks through, who goes on takes the rest for a line. Nothing is found in
    what was left out of a long log.
    """
    needle = text.casefold()
    start = position = min(offset, log.size)
    matches: list[Match] = []
    complete = False
    while not complete and len(matches) < _MATCHES and position - start <= _SCANNED - _PIECE:
        if position in range(*log.gap):
            _, position = log.gap
        data = log.read(position, position + _PIECE)
        lines = data[: data.rfind(b"\n") + 1]
        if lines:
            room = _MATCHES - len(matches)
            found = list(islice(_matching(lines, needle), room))
            matches += [Match(position + at, _show(line)) for at, line in found]
            at, line = found[-1] if len(found) == room else (0, lines[:-1])
            position += at + len(line) + 1
        else:
            line_end = _look_through(log, needle, position, start + _SCANNED)
            if line_end.offset == position < log.size:
                break  # the log was deleted meanwhile
            if line_end.found:
                head = log.read(position, position + _SHOWN_CHARACTERS * _CHARACTER_BYTES)
                matches.append(Match(position, _show(head)))
            complete = line_end.offset == log.size
            position = position if line_end.is_open else line_end.offset
    return LogSearch(log.attempt, matches, start, position, log.size, complete)


@dataclass(frozen=True)
class _LineEnd:
    """How looking through one line went."""

    found: bool
    offset: int
    """Where the line ends, or what was looked through of it."""
    is_open: bool
    """Whether more of the line may still be written."""


def _look_through(log: Log, needle: str, start: int, limit: int) -> _LineEnd:
    """Look through the line that begins at ``start``, however long it is, up to a limit."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    found, text, position, newline = False, "", start, b""
    while not newline and (data := log.read(position, min(position + _PIECE, limit))):
        line, newline, _ = data.partition(b"\n")
        # What is looked for may begin in one piece and end in the next.
        text = text[-len(needle) :] + decoder.decode(line).casefold()
        found = found or needle in text
        position += len(line) + len(newline)
    found = found or needle in text + decoder.decode(b"", final=True)
    is_open = position == log.size and not (newline or log.ended)
    return _LineEnd(found, position, is_open)


def _matching(lines: bytes, needle: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that have the text, without their ends, and where each begins."""
    folded = _fold(lines)
    if needle not in folded:
        return
    position = 0
    for line, folded_line in zip(lines.split(b"\n"), folded.split("\n"), strict=True):
        if needle in folded_line:
            yield position, line
        position += len(line) + 1


def _fold(data: bytes) -> str:
    return data.decode(errors="replace").casefold()


def _show(line: bytes) -> str:
    head = line[: _SHOWN_CHARACTERS * _CHARACTER_BYTES].partition(b"\n")[0].removesuffix(b"\r")
    return head.decode(errors="replace")[:_SHOWN_CHARACTERS]
