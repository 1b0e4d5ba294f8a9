"""Streams: append-only bytes, held exactly once however often they are sent.

A long log keeps its start, and as much of its end as fits. The missing middle is the stream's gap,
in whole chunks. Offsets count from the start of the whole log.

The files of a rank's output folder are a stream too: a list, then the contents. The files of an
attempt have a common limit. If a rank exceeds it, only its list is stored; the rest is a gap.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import groupby
from operator import itemgetter

from peewee import fn

from mlbench.contract.line_chunks import whole_lines
from mlbench.contract.names import STREAMS, StreamName
from mlbench.contract.output import MAX_BYTES, MAX_LIST_BYTES
from mlbench_master.database.connection import exclusive, run_many, run_sql, store
from mlbench_master.database.group_commit import PATIENT_SECONDS, GroupCommit
from mlbench_master.database.models import Chunk, Stream, run_owner
from mlbench_master.errors import BadFieldError
from mlbench_master.notify import notify
from mlbench_master.recording.samples import Content, parse_lines, parse_posted

METRICS = "metrics"
POSTED = "posted"
FILES: StreamName = "files"
KEY = "owner = ? AND attempt = ? AND rank = ? AND name = ?"
"""SQL condition of a stream, for the fields of a ``StreamKey``."""
# Raw SQL, because a thousand ranks ship every second or two.
_FIRST_CHUNK = 'SELECT MAX("offset") FROM chunk WHERE stream_id = ? AND "offset" <= ?'
_CHUNKS = f"""
    SELECT "offset", data FROM chunk
    WHERE stream_id = ? AND "offset" >= COALESCE(({_FIRST_CHUNK}), 0) AND "offset" < ?
    ORDER BY "offset"
"""  # noqa: S608 - no values
_WAITS = f"name IN ('{METRICS}', '{POSTED}') AND indexed < size"
_OF_RANK = f"(CAST(stream.rank AS TEXT) = ? OR has_other_ranks OR name = '{POSTED}')"
_WAITING_BYTES = "SELECT COALESCE(SUM(size - indexed), 0) FROM stream WHERE"
_WAITING = f"""
    SELECT stream.id, "offset", data FROM stream JOIN chunk ON stream_id = stream.id
    WHERE {_WAITS} AND owner = ? AND "offset" >= COALESCE(
        ({_FIRST_CHUNK.replace("?", "{}").format("stream.id", "indexed")}), 0)
"""  # noqa: S608 - no values
_ADD_CHUNK = 'INSERT INTO chunk (stream_id, "offset", data) VALUES (?, ?, ?)'
_GROW = "UPDATE stream SET size = ?, has_other_ranks = has_other_ranks OR ? WHERE id = ?"
_CREATE = """
    INSERT INTO stream (
        owner, attempt, rank, name, size, indexed, recorded, gap_start, gap_end, has_other_ranks
    ) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, FALSE) ON CONFLICT DO NOTHING
"""
# A process can cut its file to less than was shipped.
_CLOSE = f"""
    UPDATE stream SET final_size = CASE WHEN size > ? THEN size ELSE ? END WHERE {KEY}
"""  # noqa: S608 - no values
_SHORTEN = f"{_CLOSE} AND final_size > size AND final_size > ?"
_GROW_FROM = f"""
    UPDATE stream SET size = size + ?, has_other_ranks = has_other_ranks OR ?
    WHERE {KEY} AND size = ? AND (final_size IS NULL OR final_size >= size + ?)
    RETURNING id, size = final_size
"""  # noqa: S608 - no values
# Sum of the final sizes of the other ranks' files, so that ranks that ship simultaneously share the
# limit.
_OTHER_FILES = """
    SELECT COALESCE(SUM(COALESCE(final_size, size) - gap_end + gap_start), 0) FROM stream
    WHERE owner = ? AND attempt = ? AND name = ? AND rank <> ?
"""
_ADVANCE = """
    UPDATE stream SET indexed = indexed + ?, recorded = recorded + ?
    WHERE id = ? AND indexed = ?
"""
_FORGET = """
    DELETE FROM chunk WHERE stream_id = ?
        AND "offset" + LENGTH(data) <= (SELECT indexed FROM stream WHERE id = ?)
"""
# Chunks of a log's gap that are deleted with each append.
_GAP_CHUNKS_AT_ONCE = 1000


@dataclass(frozen=True)
class StreamKey:
    """The key of a stream."""

    owner: str
    attempt: int
    rank: int
    name: str


def append(
    key: StreamKey, offset: int, data: bytes, *, limit: int | None = None, written: int = 0
) -> int:
    """Store the part of ``data`` that is new, and return the offset to send next.

    Bytes that are held already are skipped. Nothing is stored where ``data`` begins behind the end
    of the stream, nor past the end of a closed stream.

    Args:
        key: the stream.
        offset: where ``data`` begins in the stream.
        data: a piece of the stream.
        limit: bytes to hold of a log, half from its start and half from its end; None for all.
        written: bytes that the sender has, if it says so: it is led past what would be left out.
    """
    if data and limit is None and _group.write((key, offset, data)):
        return offset + len(data)
    with exclusive(key.owner):
        stream = find_or_create(key)
        if stream.final_size is not None:
            data = data[: max(0, stream.final_size - offset)]
        new = data[stream.size - offset :] if offset <= stream.size else b""
        if new:
            add_chunk(stream.id, stream.size, new)
            stream.size += len(new)
            run_sql(_GROW, stream.size, _may_name_ranks(key, new), stream.id)
        if limit is not None:
            _leave_out(stream, limit, written if stream.final_size is None else stream.final_size)
    if stream.size == stream.final_size:
        notify()
    if new and key.name == METRICS:
        notify("samples")
    return int(stream.size)


def append_files(key: StreamKey, offset: int, data: bytes, written: int) -> int:
    """Store the part of a rank's files that is new, and return the offset to send next.

    ``written`` is the length of list and contents, which do not grow any more. If they exceed the
    limit, only the list is stored.

    Raises:
        BadFieldError: the files do not begin with a line.
    """
    if offset == 0 and data:
        end = data.find(b"\n", 0, MAX_LIST_BYTES) + 1
        if not end:
            raise BadFieldError("body", "files: must start with the line that lists them")
        with exclusive(key.owner):
            stream = find_or_create(key)
            if not stream.size and stream.final_size != 0:  # neither begun nor given up
                # A separate chunk, because the list is read alone.
                add_chunk(stream.id, 0, data[:end])
                size = stream.final_size or max(written, len(data))
                others_of = (key.owner, key.attempt, FILES, key.rank)
                [others] = run_sql(_OTHER_FILES, *others_of).fetchone()
                if others + size <= MAX_BYTES + MAX_LIST_BYTES:
                    store(stream, final_size=size, size=end)
                else:
                    store(stream, final_size=size, size=size, gap_start=end, gap_end=size)
    return append(key, offset, data)


def _append_all(pieces: Sequence[tuple[StreamKey, int, bytes]]) -> Sequence[bool]:
    """Append each piece to its stream if the stream ends at its offset and has room for it.

    Nearly all pieces qualify, and appending them together takes a fraction of the time.

    Returns:
        Whether each piece was appended.
    """
    appended, is_complete = [False] * len(pieces), False
    for owner in {key.owner for key, *_ in pieces}:
        with exclusive(owner):
            for i, (key, offset, data) in enumerate(pieces):
                if key.owner != owner:
                    continue
                if not offset:
                    create(key)
                new = len(data), _may_name_ranks(key, data)
                grown = run_sql(_GROW_FROM, *new, *astuple(key), offset, len(data)).fetchone()
                if grown:
                    stream_id, completes = grown
                    add_chunk(stream_id, offset, data)
                    appended[i], is_complete = True, is_complete or bool(completes)
    notify("samples")
    if is_complete:
        notify()
    return appended


_group = GroupCommit(_append_all, PATIENT_SECONDS)


def _may_name_ranks(key: StreamKey, data: bytes) -> bool:
    """Check if a piece may have a sample of another rank; of part of a line, nobody knows."""
    signs = (b'"rank"', b"@", b"\\")
    return key.name == METRICS and (data[-1:] != b"\n" or any(sign in data for sign in signs))


def create(key: StreamKey) -> None:
    """Create an empty stream, unless there is one."""
    run_sql(_CREATE, *astuple(key))


def add_chunk(stream_id: int, offset: int, data: bytes) -> None:
    """Store the bytes by which a stream has grown."""
    run_sql(_ADD_CHUNK, stream_id, offset, data)


def find(key: StreamKey) -> Stream | None:
    """Return a stream; None if nothing was sent yet."""
    return next(iter(Stream.rows(KEY, *astuple(key))), None)


def find_or_create(key: StreamKey) -> Stream:
    """Return a stream, which is empty if nothing was sent yet. Its owner must be locked."""
    if stream := find(key):
        return stream
    create(key)
    return Stream.rows(KEY, *astuple(key))[0]


def close(run_id: int, attempt: int, rank: int, sizes: Mapping[StreamName, int]) -> None:
    """Set the final size of each stream of a rank whose process has ended.

    A stream without a size ends with its last received byte.
    """
    owner = run_owner(run_id)
    closing = [(size := sizes.get(name, 0), size, owner, attempt, rank, name) for name in STREAMS]
    with exclusive(owner):
        run_many(_CREATE, [row[2:] for row in closing])
        run_many(_CLOSE, closing)


def close_one(key: StreamKey, size: int) -> None:
    """Set the final size of a stream, whose owner must be locked, unless it is longer already."""
    run_sql(_CLOSE, size, size, *astuple(key))


def shorten(run_id: int, attempt: int, rank: int, sizes: Mapping[StreamName, int]) -> None:
    """Lower the final sizes of closed streams: the rest of the rank's files is gone."""
    owner = run_owner(run_id)
    with exclusive(owner):
        for name in STREAMS:
            size = sizes.get(name, 0)
            run_sql(_SHORTEN, size, size, owner, attempt, rank, name, size)


def waiting(owner: str | None = None, rank: str = "") -> list[Stream]:
    """Return the streams with lines that are not indexed: an owner's, or all; maybe of a rank."""
    condition, values = _which_wait(owner, rank)
    return Stream.rows(f"{condition} ORDER BY id", *values)


def waiting_bytes(owner: str | None = None, rank: str = "") -> int:
    """Return the size of the lines that are not indexed: an owner's, or all; maybe of a rank."""
    condition, values = _which_wait(owner, rank)
    return int(run_sql(f"{_WAITING_BYTES} {condition}", *values).fetchone()[0])


def _which_wait(owner: str | None, rank: str) -> tuple[str, Sequence[str]]:
    chosen = {sql: value for sql, value in (("owner = ?", owner), (_OF_RANK, rank)) if value}
    return " AND ".join([_WAITS, *chosen]), [*chosen.values()]


def waits(owner: str) -> bool:
    """Check if samples of an owner's ranks wait; posted ones may do so for ever."""
    return any(stream.name == METRICS for stream in waiting(owner))


def parse(stream: Stream, lines: bytes, received_us: int, metrics: Collection[str] = ()) -> Content:
    """Parse whole lines of a stream; ``received_us`` dates malformed ones.

    ``metrics`` allows it to omit a rank's samples of other metrics; by default it returns all.
    """
    if stream.name == POSTED:
        return Content(parse_posted(lines), [])
    return parse_lines(lines, str(stream.rank), received_us, metrics)


def read(stream: Stream, start: int, end: int) -> bytes:
    """Return the bytes from ``start`` to before ``end``, up to the first that is not held."""
    return _join(run_sql(_CHUNKS, stream.id, stream.id, start, end).fetchall(), start, end)


def _join(chunks: Iterable[tuple[int, bytes]], start: int, end: int) -> bytes:
    pieces, position = [], start
    for offset, data in chunks:
        if offset > position:
            break
        piece = bytes(data)[position - offset : max(0, end - offset)]
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def read_batch(stream: Stream, start: int, most_bytes: int) -> bytes:
    """Read whole lines from ``start`` on; of a line longer than a batch, a part."""
    return _first_lines(stream, start, read(stream, start, start + most_bytes), most_bytes)


def read_waiting(owner: str, most_bytes: int, rank: str = "") -> Iterator[tuple[Stream, bytes]]:
    """Yield the lines that wait in an owner's streams, however many, as ``read_batch`` does.

    With a ``rank``, only those that may have samples of it.
    """
    streams = {stream.id: stream for stream in waiting(owner, rank)}
    of_rank = (f"AND {_OF_RANK}", rank) if rank else ("",)
    rows = run_sql(f'{_WAITING} {of_rank[0]} ORDER BY stream.id, "offset"', owner, *of_rank[1:])
    for stream_id, chunks in groupby(rows, key=itemgetter(0)):
        stream = streams[stream_id]
        data = _join((chunk[1:] for chunk in chunks), stream.indexed, stream.size)
        at = 0
        while lines := _first_lines(
            stream, stream.indexed + at, data[at : at + most_bytes], most_bytes
        ):
            yield stream, lines
            at += len(lines)


def _first_lines(stream: Stream, start: int, data: bytes, most_bytes: int) -> bytes:
    # The last line of a closed stream may lack its end.
    lines = data if start + len(data) == stream.final_size else whole_lines(data)
    return lines or (data if start + most_bytes <= stream.size else b"")


def advance(stream: Stream, length: int, recorded: int) -> bool:
    """Advance a stream's indexed offset; return False if the run was deleted."""
    moved = run_sql(_ADVANCE, length, recorded, stream.id, stream.indexed)
    return bool(moved.rowcount)


def forget_indexed(stream: Stream) -> None:
    """Delete the chunks of a stream whose lines have all been indexed."""
    run_sql(_FORGET, stream.id, stream.id)


def _leave_out(stream: Stream, limit: int, written: int) -> None:
    """Widen the gap of a log that is longer than its limit, and skip what the sender need not send.

    The log must be locked. As chunks stay whole, it holds a little more than ``limit`` bytes.
    """
    start = stream.gap_start
    if not start and stream.size >= limit // 2:
        # The first chunk, held or still to come, after half of the limit.
        chunk = Chunk.select(fn.MIN(Chunk.offset)).where(
            Chunk.stream == stream, Chunk.offset >= max(limit // 2, 1)
        )
        start = int(chunk.scalar() or stream.size)
    end = max(stream.size, written) - (limit - limit // 2)
    if not start or end <= start:
        return
    if end < stream.size:
        # The gap ends with the last chunk that begins at or before its end.
        [offset] = run_sql(_FIRST_CHUNK, stream.id, end).fetchone()
        end = offset or 0
    if end > max(start, stream.gap_end):
        store(stream, gap_start=start, gap_end=end, size=max(stream.size, end))
    in_gap = (Chunk.stream == stream) & Chunk.offset.between(stream.gap_start, stream.gap_end - 1)
    offsets = Chunk.select(Chunk.offset).where(in_gap).order_by(Chunk.offset)
    Chunk.delete().where(
        Chunk.stream == stream, Chunk.offset.in_(offsets.limit(_GAP_CHUNKS_AT_ONCE))
    ).execute()
