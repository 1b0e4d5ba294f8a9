"""Leaving out the middle of a long log: its start stays, and its end as far as there is room.

What is left out is the stream's gap, in whole chunks. Offsets stay those of the whole log.
"""

from peewee import fn

from master.models import Chunk, Stream

# A ring of lines that came one by one gives its room back in many small transactions.
_MOST_ROWS = 1000


def leave_out(stream: Stream, limit: int, written: int) -> None:
    """Widen the gap of a log that is longer than its limit.

    Its sender is led past what it need not send any more, as nobody would see it.

    Args:
        stream: the log, which somebody writes alone.
        limit: the bytes to hold, half of them from the start; in whole chunks, so a little more.
        written: the bytes that the sender has, as far as is known.
    """
    start = stream.gap_start or _first_from(stream, limit // 2)
    end = max(stream.size, written) - (limit - limit // 2)
    if start is None or end <= start:
        return
    if end < stream.size:
        end = _begin_of_chunk(stream, end)
    if end > max(start, stream.gap_end):
        stream.gap_start, stream.gap_end, stream.size = start, end, max(stream.size, end)
        stream.save(only=[Stream.gap_start, Stream.gap_end, Stream.size])
    _forget(stream)


def _first_from(stream: Stream, position: int) -> int | None:
    """Return where the first chunk begins, or will, that is wholly behind a position."""
    if stream.size < position:
        return None
    first = Chunk.select(fn.MIN(Chunk.offset)).where(
        Chunk.stream == stream, Chunk.offset >= max(position, 1)
    )
    return int(first.scalar() or stream.size)


def _begin_of_chunk(stream: Stream, position: int) -> int:
    begin = Chunk.select(fn.MAX(Chunk.offset)).where(
        Chunk.stream == stream, Chunk.offset <= position
    )
    return int(begin.scalar() or 0)


def _forget(stream: Stream) -> None:
    in_gap = (Chunk.stream == stream) & Chunk.offset.between(stream.gap_start, stream.gap_end - 1)
    offsets = Chunk.select(Chunk.offset).where(in_gap).order_by(Chunk.offset).limit(_MOST_ROWS)
    Chunk.delete().where(Chunk.stream == stream, Chunk.offset.in_(offsets)).execute()
