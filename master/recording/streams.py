"""Streams: append-only bytes, held exactly once however often they are sent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from peewee import fn

from master.models import Chunk, Stream, database, run_owner
from master.recording.samples import Sample, to_json_lines, whole_lines
from mlbench.names import STREAMS, StreamName

METRICS = "metrics"
POSTED = "posted"
NO_RANK = -1


@dataclass(frozen=True)
class StreamKey:
    """Which stream: whose, of which attempt and rank."""

    owner: str
    attempt: int
    rank: int
    name: str


def append(key: StreamKey, offset: int, data: bytes) -> int:
    """Store the part of ``data`` that is new, and return the offset held from now on.

    ``data`` begins at ``offset`` of the stream. What is held already is left alone; where a gap
    would be left, nothing is stored, nor is anything past the end of a closed stream. Either way
    the answer tells the sender where to go on.
    """
    with database.atomic("IMMEDIATE"):
        stream = _open(key)
        if stream.final_size is not None:
            data = data[: max(0, stream.final_size - offset)]
        new = data[stream.size - offset :] if offset <= stream.size else b""
        if not new:
            return stream.size
        return _extend(stream, new)


def append_samples(owner: str, samples: list[Sample]) -> None:
    """Add posted samples to the end of their owner's stream of posted samples."""
    with database.atomic("IMMEDIATE"):
        _extend(_open(StreamKey(owner, 0, NO_RANK, POSTED)), to_json_lines(samples))


def close(run_id: int, attempt: int, rank: int, sizes: Mapping[StreamName, int]) -> None:
    """Note how long each stream of a rank is, now that its process has ended.

    Where no size is given, what is held is all that there will be.
    """
    with database.atomic("IMMEDIATE"):
        for name in STREAMS:
            stream = _open(StreamKey(run_owner(run_id), attempt, rank, name))
            # A process can cut its file short, behind what was shipped.
            stream.final_size = max(sizes.get(name, 0), stream.size)
            stream.save()


def waiting(owner: str | None = None) -> list[Stream]:
    """Return the streams whose samples have not all been delivered: an owner's, or all."""
    found = Stream.select().where(
        Stream.name.in_([METRICS, POSTED]), Stream.delivered < Stream.size
    )
    if owner is not None:
        found = found.where(Stream.owner == owner)
    # In full before any write: SQLite refuses to write while an older read is open.
    return list(found.order_by(Stream.id))


def rank_label(stream: Stream) -> str:
    """Return the rank that a stream's samples carry; empty for posted ones."""
    return "" if stream.rank == NO_RANK else str(stream.rank)


def read(stream: Stream, start: int, end: int) -> bytes:
    """Return the bytes of a stream from ``start`` to before ``end``, as far as they are held."""
    pieces = []
    for chunk in _chunks(stream, start, end):
        data = bytes(chunk.data)
        pieces.append(data[max(0, start - chunk.offset) : max(0, end - chunk.offset)])
    return b"".join(pieces)


def read_lines(stream: Stream, start: int, end: int) -> bytes:
    """Return what ``read`` does, up to its last line end. A closed stream's last may lack it."""
    data = read(stream, start, end)
    return data if start + len(data) == stream.final_size else whole_lines(data)


def forget_delivered(stream: Stream) -> None:
    """Delete the chunks whose samples have all been delivered."""
    if stream.delivered == stream.size:
        Chunk.delete().where(Chunk.stream == stream).execute()
    else:
        first = _first_chunk(stream, stream.delivered)
        Chunk.delete().where(Chunk.stream == stream, Chunk.offset < first).execute()


def _open(key: StreamKey) -> Stream:
    stream: Stream
    stream, _ = Stream.get_or_create(
        owner=key.owner, attempt=key.attempt, rank=key.rank, name=key.name
    )
    return stream


def _extend(stream: Stream, data: bytes) -> int:
    Chunk.insert(stream=stream, offset=stream.size, data=data).execute()
    stream.size += len(data)
    Stream.update(size=stream.size).where(Stream.id == stream.id).execute()
    return stream.size


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
