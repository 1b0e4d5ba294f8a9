"""Streams: append-only bytes, held exactly once however often they are sent."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from peewee import fn

from master.database import exclusive
from master.models import Chunk, Detail, KeptSample, Series, Stream, run_owner
from master.recording.leaving_out import leave_out
from master.recording.samples import Stated, parse_lines, parse_posted, whole_lines
from mlbench.names import STREAMS, StreamName

METRICS = "metrics"
POSTED = "posted"
OF_SAMPLES = Stream.name.in_([METRICS, POSTED])


@dataclass(frozen=True)
class StreamKey:
    """Which stream: whose, of which attempt and rank."""

    owner: str
    attempt: int
    rank: int
    name: str


def append(
    key: StreamKey, offset: int, data: bytes, *, limit: int | None = None, written: int = 0
) -> int:
    """Store the part of ``data`` that is new, and return the offset held from now on.

    ``data`` begins at ``offset`` of the stream. What is held already is left alone; where a gap
    would be left, nothing is stored, nor is anything past the end of a closed stream. Either way
    the answer tells the sender where to go on.

    Args:
        key: the stream.
        offset: where in it the data begins.
        data: a piece of it.
        limit: how many bytes are held, half from the start and half from the end; None for all.
        written: how many bytes the sender has, if it says so: what would be left out, it can skip.
    """
    with exclusive(key.owner):
        stream = _open(key)
        if stream.final_size is not None:
            data = data[: max(0, stream.final_size - offset)]
        new = data[stream.size - offset :] if offset <= stream.size else b""
        if new:
            _extend(stream, new)
        if limit is not None:
            leave_out(stream, limit, written if stream.final_size is None else stream.final_size)
        return int(stream.size)


def close(run_id: int, attempt: int, rank: int, sizes: Mapping[StreamName, int]) -> None:
    """Note how long each stream of a rank is, now that its process has ended.

    Where no size is given, what is held is all that there will be.
    """
    with exclusive(run_owner(run_id)):
        for name in STREAMS:
            stream = _open(StreamKey(run_owner(run_id), attempt, rank, name))
            # A process can cut its file short, behind what was shipped.
            stream.final_size = max(sizes.get(name, 0), stream.size)
            stream.save()


def waiting(owner: str | None = None) -> list[Stream]:
    """Return the streams whose samples have not all been delivered: an owner's, or all."""
    found = Stream.select().where(OF_SAMPLES, Stream.delivered < Stream.size)
    if owner is not None:
        found = found.where(Stream.owner == owner)
    # In full before any write: SQLite refuses to write while an older read is open.
    return list(found.order_by(Stream.id))


def parse(stream: Stream, lines: bytes, received_us: int) -> Iterator[Stated]:
    """Yield what whole lines of a stream say; ``received_us`` dates those that say nothing."""
    if stream.name == POSTED:
        return parse_posted(lines)
    return parse_lines(lines, str(stream.rank), received_us)


def read(stream: Stream, start: int, end: int) -> bytes:
    """Return the bytes of a stream from ``start`` to before ``end``, up to the first not held."""
    pieces, position = [], start
    for chunk in _chunks(stream, start, end):
        if chunk.offset > position:
            break
        piece = bytes(chunk.data)[position - chunk.offset : max(0, end - chunk.offset)]
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def read_lines(stream: Stream, start: int, end: int) -> bytes:
    """Return what ``read`` does, up to its last line end. A closed stream's last may lack it."""
    data = read(stream, start, end)
    return data if start + len(data) == stream.final_size else whole_lines(data)


def advance(stream: Stream, length: int, recorded: int) -> bool:
    """Note that the next bytes of a stream, with so many samples, have been delivered.

    Returns:
        Whether the stream is still as it was read; it is not if its run was deleted meanwhile.
    """
    moved: int = (
        Stream.update(delivered=Stream.delivered + length, recorded=Stream.recorded + recorded)
        .where(Stream.id == stream.id, Stream.delivered == stream.delivered)
        .execute()
    )
    return moved == 1


def forget_delivered(owner: str) -> None:
    """Delete the chunks of an owner's samples that have all been delivered."""
    for stream in list(_of_samples(owner)):
        if stream.delivered == stream.size:
            Chunk.delete().where(Chunk.stream == stream).execute()
        else:
            first = _first_chunk(stream, stream.delivered)
            Chunk.delete().where(Chunk.stream == stream, Chunk.offset < first).execute()


def rewind(owner: str) -> bool:
    """Have all samples of an owner delivered again; return whether all of them are still here."""
    with exclusive(owner):
        found = [stream for stream in _of_samples(owner) if stream.size]
        if not all(_is_whole(stream) for stream in found):
            return False
        Stream.update(delivered=0, recorded=0).where(Stream.id.in_([s.id for s in found])).execute()
        for table in (Series, KeptSample, Detail):
            table.delete().where(table.owner == owner).execute()
        return True


def _of_samples(owner: str) -> Iterable[Stream]:
    return Stream.select().where(Stream.owner == owner, OF_SAMPLES)


def _is_whole(stream: Stream) -> bool:
    held = Chunk.select(fn.SUM(fn.LENGTH(Chunk.data))).where(Chunk.stream == stream).scalar()
    return int(held or 0) == stream.size


def _open(key: StreamKey) -> Stream:
    stream: Stream
    stream, _ = Stream.get_or_create(
        owner=key.owner, attempt=key.attempt, rank=key.rank, name=key.name
    )
    return stream


def _extend(stream: Stream, data: bytes) -> None:
    Chunk.insert(stream=stream, offset=stream.size, data=data).execute()
    stream.size += len(data)
    Stream.update(size=stream.size).where(Stream.id == stream.id).execute()


def _chunks(stream: Stream, start: int, end: int) -> Iterator[Chunk]:
    """Yield the chunks that overlap [start, end), in order."""
    query = Chunk.select().where(
        Chunk.stream == stream, Chunk.offset >= _first_chunk(stream, start), Chunk.offset < end
    )
    yield from query.order_by(Chunk.offset)


def _first_chunk(stream: Stream, position: int) -> int:
    """Return the offset of the chunk that holds a position: the last that begins at or before."""
    offset = Chunk.select(fn.MAX(Chunk.offset)).where(
        Chunk.stream == stream, Chunk.offset <= position
    )
    return offset.scalar() or 0
