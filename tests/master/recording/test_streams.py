"""Streams hold exactly the bytes that were sent, however often, and in whatever order."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from peewee import Database

from master.models import Chunk, Run, Stream, run_owner
from master.recording import streams
from master.recording.samples import Sample
from master.recording.streams import POSTED, read, read_lines
from mlbench.names import STREAMS
from tests.master.making import find_stream, key


def held(run: Run) -> bytes:
    stream = find_stream(key(run))
    return read(stream, 0, stream.size) if stream else b""


def test_chunks_follow_each_other(run: Run) -> None:
    assert streams.append(key(run), 0, b"abc") == 3
    assert streams.append(key(run), 3, b"def") == 6
    assert held(run) == b"abcdef"


@pytest.mark.parametrize(
    ("offset", "data", "answer"),
    [
        (0, b"abc", 3),  # all of it again
        (1, b"b", 3),  # a part of it again
        (0, b"abcdef", 6),  # again, and more
        (2, b"cdef", 6),
        (3, b"", 3),
        (4, b"efg", 3),  # a gap
        (10**15, b"z", 3),
    ],
)
def test_repetition_overlap_and_gap(run: Run, offset: int, data: bytes, answer: int) -> None:
    streams.append(key(run), 0, b"abc")
    assert streams.append(key(run), offset, data) == answer
    assert held(run) == b"abcdef"[:answer]


@pytest.mark.parametrize("seed", range(8))
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
    stream = find_stream(key(run))
    assert stream is not None
    for _ in range(30):
        start, end = sorted(dice.choices(range(len(whole) + 10), k=2))
        assert read(stream, start, end) == whole[start:end]


def test_threads_that_send_the_same_bytes_store_them_once(run: Run, database: Database) -> None:
    whole = random.Random(1).randbytes(2_000)  # noqa: S311

    def send(seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311
        offset = 0
        while offset < len(whole):
            piece = whole[offset : offset + dice.randrange(1, 200)]
            offset = streams.append(key(run), offset, piece)
        database.close()  # this thread's connection

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(4)))
    assert held(run) == whole


def test_streams_are_apart(run: Run) -> None:
    streams.append(key(run, 0), 0, b"rank 0")
    streams.append(key(run, 1), 0, b"rank 1")
    streams.append(key(run, 0, "stdout"), 0, b"stdout")
    run.attempt = 2
    streams.append(key(run, 0), 0, b"attempt 2")
    assert held(run) == b"attempt 2"
    run.attempt = 1
    assert held(run) == b"rank 0"


def test_a_closed_stream_takes_what_is_missing_and_no_more(run: Run) -> None:
    streams.append(key(run), 0, b"abc")
    streams.close(run.id, 1, 0, {"metrics": 5})
    assert streams.append(key(run), 3, b"defgh") == 5
    assert streams.append(key(run), 5, b"fgh") == 5
    assert held(run) == b"abcde"
    assert {s.name: s.final_size for s in Stream.select()} == {
        "stdout": 0,
        "stderr": 0,
        "metrics": 5,
    }


def test_a_file_that_was_cut_short_is_complete_as_held(run: Run) -> None:
    """Otherwise size and final size would never agree, and the run never end."""
    streams.append(key(run), 0, b"abcdef")
    streams.close(run.id, 1, 0, {"metrics": 2})
    stream = find_stream(key(run))
    assert stream is not None
    assert (stream.size, stream.final_size) == (6, 6)


def test_closing_a_lost_rank_takes_what_is_held(run: Run) -> None:
    streams.append(key(run), 0, b"abc")
    streams.close(run.id, 1, 0, {})
    assert streams.append(key(run), 3, b"def") == 3
    for name in STREAMS:
        stream = find_stream(key(run, 0, name))
        assert stream is not None
        assert stream.final_size == stream.size


def test_whole_lines_are_read_and_a_closed_streams_last_one(run: Run) -> None:
    streams.append(key(run), 0, b"one\ntwo\nthr")
    stream = find_stream(key(run))
    assert stream is not None
    assert read_lines(stream, 0, 100) == b"one\ntwo\n"
    assert read_lines(stream, 4, 6) == b""
    streams.close(run.id, 1, 0, {"metrics": 11})
    stream = find_stream(key(run))
    assert stream is not None
    assert read_lines(stream, 0, 100) == b"one\ntwo\nthr"
    assert read_lines(stream, 0, 10) == b"one\ntwo\n"


def test_delivered_chunks_go_but_not_the_one_that_is_half_delivered(run: Run) -> None:
    for offset in range(0, 30, 10):
        streams.append(key(run), offset, b"0123456789")
    stream = find_stream(key(run))
    assert stream is not None
    for delivered, left in [(5, [0, 10, 20]), (10, [10, 20]), (25, [20]), (30, [])]:
        stream.delivered = delivered
        streams.forget_delivered(stream)
        rows = Chunk.select().where(Chunk.stream == stream).order_by(Chunk.offset)
        assert [chunk.offset for chunk in rows] == left
        assert read(stream, delivered, 30) == (b"0123456789" * 3)[delivered:]
    assert streams.append(key(run), 30, b"more") == 34
    assert read(stream, 30, 34) == b"more"


def test_posted_samples_are_lines_of_a_stream_of_their_own(run: Run) -> None:
    owner = run_owner(run.id)
    streams.append_samples(owner, [Sample("a", "", 1_000_000, 1.0)])
    streams.append_samples(owner, [Sample("b", "3", 2_000_000, "text")])
    stream = Stream.get(owner=owner, name=POSTED)
    assert read(stream, 0, stream.size).splitlines() == [
        b'{"name": "a", "rank": "", "time": 1.0, "value": 1.0}',
        b'{"name": "b", "rank": "3", "time": 2.0, "value": "text"}',
    ]
