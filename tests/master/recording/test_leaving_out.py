"""Of a log that is longer than its limit, the start and the end are held, at their own offsets."""

import pytest

from master.models import Chunk, Run, Stream
from master.recording import leaving_out, streams
from master.recording.streams import read
from tests.master.making import find_stream, key

LIMIT = 100
WHOLE = b"".join(b"%09d\n" % number for number in range(100))


def send(run: Run, size: int, piece: int = 10, **said: int) -> Stream:
    """Send the first bytes of the log as an agent does, and return the stream."""
    offset = 0
    while offset < size:
        data = WHOLE[offset : min(offset + piece, size)]
        offset = streams.append(key(run, 0, "stdout"), offset, data, limit=LIMIT, **said)
    stream = find_stream(key(run, 0, "stdout"))
    assert stream is not None
    assert stream.size == size
    return stream


def held(stream: Stream) -> bytes:
    return read(stream, 0, stream.gap_start) + b"|" + read(stream, stream.gap_end, stream.size)


def test_a_log_within_its_limit_is_held_whole(run: Run) -> None:
    stream = send(run, LIMIT)
    assert (stream.gap_start, stream.gap_end) == (0, 0)
    assert read(stream, 0, LIMIT) == WHOLE[:LIMIT]


@pytest.mark.both_databases
@pytest.mark.parametrize("piece", [1, 10, 50])
def test_the_start_and_the_end_are_held(run: Run, piece: int) -> None:
    stream = send(run, 1000, piece)
    assert (stream.gap_start, stream.gap_end) == (50, 950)
    assert held(stream) == WHOLE[:50] + b"|" + WHOLE[950:]
    assert sum(len(chunk.data) for chunk in Chunk.select()) == LIMIT


@pytest.mark.both_databases
def test_whole_chunks_are_left_out(run: Run) -> None:
    stream = send(run, 990, 30)
    assert (stream.gap_start, stream.gap_end) == (60, 930)
    assert held(stream) == WHOLE[:60] + b"|" + WHOLE[930:990]


def test_a_sender_skips_what_is_not_needed(run: Run) -> None:
    def ship(offset: int) -> int:
        data = WHOLE[offset : offset + 30]
        return streams.append(key(run, 0, "stdout"), offset, data, limit=LIMIT, written=1000)

    assert [ship(0), ship(30), ship(950), ship(980)] == [30, 950, 980, 1000]
    # An answer that was lost: the same again.
    assert [ship(30), ship(980)] == [1000, 1000]
    stream = find_stream(key(run, 0, "stdout"))
    assert stream is not None
    assert held(stream) == WHOLE[:60] + b"|" + WHOLE[950:]


def test_the_size_at_the_end_counts_whatever_else_is_said(run: Run) -> None:
    send(run, 60)
    streams.close(run.id, 1, 0, {"stdout": 200})
    said = {"limit": LIMIT, "written": 10**9}
    assert streams.append(key(run, 0, "stdout"), 60, WHOLE[60:70], **said) == 150
    assert streams.append(key(run, 0, "stdout"), 150, WHOLE[150:210], **said) == 200


@pytest.mark.both_databases
def test_a_lower_limit_is_reached_in_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(0, 500, 10):
        streams.append(key(run, 0, "stdout"), offset, WHOLE[offset : offset + 10])
    monkeypatch.setattr(leaving_out, "_MOST_ROWS", 7)
    chunks = []
    for offset in range(500, 600, 10):
        piece = WHOLE[offset : offset + 10]
        streams.append(key(run, 0, "stdout"), offset, piece, limit=LIMIT)
        chunks.append(Chunk.select().count())
        stream = find_stream(key(run, 0, "stdout"))
        assert stream is not None
        assert held(stream) == WHOLE[:50] + b"|" + WHOLE[offset - 40 : offset + 10]
    assert chunks == [44, 38, 32, 26, 20, 14, 10, 10, 10, 10]
