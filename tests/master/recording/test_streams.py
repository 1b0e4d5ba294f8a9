"""Streams hold exactly the sent bytes, also if they arrive twice or in another order."""

import itertools
import random

import pytest

from mlbench.contract.names import StreamName
from mlbench_master.database.models import Chunk, Run, Stream, run_owner
from mlbench_master.errors import BadFieldError
from mlbench_master.recording import streams
from mlbench_master.recording.samples import Sample
from mlbench_master.recording.streams import POSTED, read, read_batch, read_waiting
from tests.support.rows import get_stream, key, make_run, post, record

pytestmark = pytest.mark.both_databases


def held(run: Run) -> bytes:
    stream = get_stream(key(run))
    return read(stream, 0, stream.size)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_any_pieces_gives_the_bytes(run: Run, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    whole = dice.randbytes(300)
    cuts = sorted({0, len(whole), *(dice.randrange(len(whole)) for _ in range(12))})
    pieces = [(max(0, start - dice.randrange(20)), end) for start, end in itertools.pairwise(cuts)]
    while True:
        for start, end in dice.sample(pieces, len(pieces)):
            answer = streams.append(key(run), start, whole[start:end])
            assert held(run) == whole[:answer]
        if answer == len(whole):
            break
    assert held(run) == whole
    stream = get_stream(key(run))
    for _ in range(30):
        start, end = sorted(dice.choices(range(len(whole) + 10), k=2))
        assert read(stream, start, end) == whole[start:end]


@pytest.mark.parametrize(("sizes", "final"), [({"metrics": 5}, 5), ({"metrics": 2}, 3), ({}, 3)])
def test_a_closed_stream_accepts_only_its_missing_bytes(
    run: Run, sizes: dict[StreamName, int], final: int
) -> None:
    """Files may be cut short or lost: otherwise the run would never end."""
    streams.append(key(run), 0, b"abc")
    streams.close(run.id, 1, 0, sizes)
    assert streams.append(key(run), 3, b"defgh") == final
    assert streams.append(key(run), 5, b"fgh") == final
    assert held(run) == b"abcdefgh"[:final]
    sizes_at_end = {stream.name: stream.final_size for stream in Stream.select()}
    assert sizes_at_end == {"stdout": 0, "stderr": 0, "metrics": final, "files": 0}


def test_whole_lines_are_read_and_a_closed_streams_last_one(run: Run) -> None:
    stream_data = b"one\ntwo\nthr"
    streams.append(key(run), 0, stream_data)
    stream = get_stream(key(run))
    assert read_batch(stream, 0, 100) == b"one\ntwo\n"
    assert (read_batch(stream, 8, 100), read_batch(stream, 4, 2)) == (b"", b"tw")
    streams.close(run.id, 1, 0, {"metrics": 11})
    stream = get_stream(key(run))
    assert (read_batch(stream, 0, 100), read_batch(stream, 0, 10)) == (stream_data, stream_data[:8])
    streams.append(key(run, 1), 0, b"three\nfour\n")
    batches = [(stream.rank, lines) for stream, lines in read_waiting(run_owner(run.id), 5)][:-1]
    assert batches == [(0, b"one\n"), (0, b"two\n"), (0, b"thr"), (1, b"three"), (1, b"\n")]


def chunks(stream: Stream) -> list[int]:
    rows = Chunk.select().where(Chunk.stream == stream).order_by(Chunk.offset)
    return [chunk.offset for chunk in rows]


def test_indexed_chunks_are_deleted_but_not_the_one_that_is_half_indexed(run: Run) -> None:
    for offset in range(0, 30, 10):
        streams.append(key(run), offset, b"0123456789")
        streams.append(key(run, 0, "stdout"), offset, b"0123456789")
    post("pod/w-0", [SAMPLE])
    stream, stdout = get_stream(key(run)), get_stream(key(run, 0, "stdout"))
    for indexed, left in [(0, [0, 10, 20]), (5, [0, 10, 20]), (10, [10, 20]), (25, [20])]:
        Stream.update(indexed=indexed).where(Stream.id == stream.id).execute()
        streams.forget_indexed(stream)
        assert chunks(stream) == left
        assert read(stream, indexed, 30) == (b"0123456789" * 3)[indexed:]
    Stream.update(indexed=30).where(Stream.id == stream.id).execute()
    streams.forget_indexed(stream)
    assert chunks(stream) == []
    assert streams.append(key(run), 30, b"more") == 34
    assert read(stream, 30, 34) == b"more"
    # No log, and nothing of another owner.
    assert chunks(stdout) == [0, 10, 20]
    assert chunks(Stream.get(owner="pod/w-0")) == [0]


SAMPLE = Sample("a", "3", 1_000_001, 0.1, True, {"any": ["JSON"]})


def test_waiting_streams_of_an_owner_come_in_order(run: Run) -> None:
    other = make_run()
    assert streams.waiting() == []
    first = record(run, b"a\n", rank=1)
    record(other, b"b\n")
    second = record(run, b"c\n", rank=0)
    streams.append(key(run, 0, "stdout"), 0, b"no sample\n")
    post(run_owner(run.id), [SAMPLE])
    waiting = streams.waiting(run_owner(run.id))
    assert waiting == [first, second, Stream.get(owner=run_owner(run.id), name=POSTED)]
    assert len(streams.waiting()) == 4
    Stream.update(indexed=Stream.size).where(Stream.id == first.id).execute()
    assert streams.waiting(run_owner(run.id)) == waiting[1:]


# --- Of a log longer than its limit, the start and the end are held, at their offsets. ---

LIMIT = 100
WHOLE = b"".join(b"%09d\n" % number for number in range(100))


def send_log(run: Run, size: int, piece: int = 10, **said: int) -> Stream:
    """Send the first bytes of the log as an agent does, and return the stream."""
    offset = 0
    while offset < size:
        data = WHOLE[offset : min(offset + piece, size)]
        offset = streams.append(key(run, 0, "stdout"), offset, data, limit=LIMIT, **said)
    stream = get_stream(key(run, 0, "stdout"))
    assert stream.size == size
    return stream


def held_around_gap(stream: Stream) -> bytes:
    return read(stream, 0, stream.gap_start) + b"|" + read(stream, stream.gap_end, stream.size)


@pytest.mark.parametrize("piece", [10, 50])
def test_the_start_and_the_end_are_held(run: Run, piece: int) -> None:
    stream = send_log(run, 1000, piece)
    assert (stream.gap_start, stream.gap_end) == (50, 950)
    assert held_around_gap(stream) == WHOLE[:50] + b"|" + WHOLE[950:]
    assert sum(len(chunk.data) for chunk in Chunk.select()) == LIMIT


def test_a_sender_skips_bytes_that_would_be_left_out(run: Run) -> None:
    def ship(offset: int) -> int:
        data = WHOLE[offset : offset + 30]
        return streams.append(key(run, 0, "stdout"), offset, data, limit=LIMIT, written=1000)

    assert [ship(0), ship(30), ship(950), ship(980)] == [30, 950, 980, 1000]
    # An answer that was lost: the same again.
    assert [ship(30), ship(980)] == [1000, 1000]
    stream = get_stream(key(run, 0, "stdout"))
    assert held_around_gap(stream) == WHOLE[:60] + b"|" + WHOLE[950:]


def test_the_final_size_takes_precedence(run: Run) -> None:
    send_log(run, 60)
    streams.close(run.id, 1, 0, {"stdout": 200})
    said = {"limit": LIMIT, "written": 10**9}
    assert streams.append(key(run, 0, "stdout"), 60, WHOLE[60:70], **said) == 150
    assert streams.append(key(run, 0, "stdout"), 150, WHOLE[150:210], **said) == 200


def test_a_lower_limit_is_reached_in_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(0, 500, 10):
        streams.append(key(run, 0, "stdout"), offset, WHOLE[offset : offset + 10])
    monkeypatch.setattr(streams, "_GAP_CHUNKS_AT_ONCE", 7)
    chunks = []
    for offset in range(500, 600, 10):
        piece = WHOLE[offset : offset + 10]
        streams.append(key(run, 0, "stdout"), offset, piece, limit=LIMIT)
        chunks.append(Chunk.select().count())
        stream = get_stream(key(run, 0, "stdout"))
        assert held_around_gap(stream) == WHOLE[:50] + b"|" + WHOLE[offset - 40 : offset + 10]
    assert chunks == [44, 38, 32, 26, 20, 14, 10, 10, 10, 10]


# --- The files of an attempt share a bound; beyond it, their lists alone are held. ---

LIST = b'{"folder": "/", "files": [], "more": 0}\n'


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BYTES", 195)
    monkeypatch.setattr(streams, "MAX_LIST_BYTES", len(LIST))


def ship(run: Run, rank: int, pack: bytes, step: int) -> bytes:
    """Send a pack as an agent does, and return what is held of it."""
    at = key(run, rank, "files")
    offset = 0
    while offset < len(pack):
        piece = pack[offset : offset + step]
        # An answer that was lost is asked for again.
        again = [streams.append_files(at, offset, piece, len(pack)) for _ in range(2)]
        assert again[0] == again[1] > offset
        offset = again[0]
    stream = get_stream(at)
    assert stream.size == stream.final_size == len(pack)
    return read(stream, 0, len(pack))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("step", [45, 1000])
def test_a_pack_beyond_the_bound_is_held_by_its_list(run: Run, step: int) -> None:
    first, second, third = (LIST + letter * 80 for letter in (b"a", b"b", b"c"))
    assert ship(run, 0, first, step) == first
    assert ship(run, 1, second, step) == LIST
    assert ship(run, 2, third[:-50], step) == third[:-50]


@pytest.mark.usefixtures("small")
def test_a_pack_that_has_begun_has_its_room(run: Run) -> None:
    pack = LIST + b"a" * 80
    assert streams.append_files(key(run, 0, "files"), 0, pack[:50], len(pack)) == 50
    assert ship(run, 1, pack, 1000) == LIST
    streams.close(run.id, 1, 0, {"files": len(pack)})
    rest = pack[50:] + b"more"
    assert streams.append_files(key(run, 0, "files"), 50, rest, len(pack)) == len(pack)


@pytest.mark.usefixtures("small")
def test_files_begin_with_a_line(run: Run) -> None:
    with pytest.raises(BadFieldError, match="the line that lists them"):
        streams.append_files(key(run, 0, "files"), 0, b"x" * len(LIST) + b"\n", 50)
