"""Reading what a rank wrote to stdout and stderr."""

import codecs
from dataclasses import dataclass

from master.models import Run, Stream, run_owner
from master.recording.streams import read

# One answer holds at most this much; a reader goes on from its `offset`.
_PAGE_BYTES = 1 << 20
# The last lines of a stream are looked for in this much of its end.
_TAIL_BYTES = 64 << 10


@dataclass(frozen=True)
class LogPage:
    """A piece of a log: its text, and the offset in bytes where the next piece begins."""

    attempt: int
    text: str
    offset: int
    complete: bool
    """Whether the process has ended and this is the last piece."""


def page(run: Run, rank: int, stream: str, offset: int) -> LogPage:
    """Return what a rank of the latest attempt wrote from an offset on."""
    found = _find(run, rank, stream)
    if found is None:
        return LogPage(run.attempt, "", 0, complete=False)
    data = read(found, offset, min(found.size, offset + _PAGE_BYTES))
    end = min(offset, found.size) + len(data)
    complete = end == found.final_size
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=complete)
    # A character that has not come in full begins the next page.
    cut, _ = decoder.getstate()
    return LogPage(run.attempt, text, end - len(cut), complete)


def tail(run: Run, rank: int, stream: str, lines: int) -> LogPage:
    """Return the last lines that a rank of the latest attempt wrote."""
    found = _find(run, rank, stream)
    if found is None or lines == 0:
        return LogPage(run.attempt, "", found.size if found else 0, complete=False)
    data = read(found, max(0, found.size - _TAIL_BYTES), found.size)
    text = b"".join(data.splitlines(keepends=True)[-lines:]).decode(errors="replace")
    return LogPage(run.attempt, text, found.size, found.size == found.final_size)


def _find(run: Run, rank: int, stream: str) -> Stream | None:
    return Stream.get_or_none(owner=run_owner(run.id), attempt=run.attempt, rank=rank, name=stream)
