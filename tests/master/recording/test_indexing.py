"""Indexing: each received line becomes samples in blocks and facts about its run, exactly once."""

import time

import pytest
from peewee import Database

from mlbench_master.database.models import Block, Chunk, Run, Stream, run_owner
from mlbench_master.recording import blocks, indexing, streams
from mlbench_master.recording.indexing import BATCH_BYTES, Indexer
from mlbench_master.recording.samples import Sample
from tests.support.killing import killed_at
from tests.support.places import in_record
from tests.support.recording import Patience, Recording
from tests.support.rows import line, make_run, post, record, reload

pytestmark = pytest.mark.both_databases


def recorded(run: Run) -> list[tuple[str, str]]:
    """Return metric and value of each sample in the record, sorted."""
    return sorted((place.metric, place.value) for place in in_record(run.id).elements())


@pytest.mark.parametrize(
    "step",
    [
        *("indexing.admit", "indexing.advance", "blocks.run_many"),
        *("indexing.store_facts", "indexing.store_refused", "indexing.forget_indexed"),
    ],
)
def test_a_killed_indexer_indexes_once(run: Run, recording: Recording, step: str) -> None:
    start = time.time() - 5
    target = b'{"time": 1, "goal": {"metric": "val", "value": 97}}\n'
    record(run, target + b"".join(line(start + i / 1000, a=i, text="x") for i in range(50)))
    with killed_at(f"mlbench_master.recording.{step}"):
        recording.index_all()
    stream = Stream.get(owner=run_owner(run.id))
    assert (stream.indexed, stream.recorded, reload(run).target) == (0, 0, None)
    assert not Block.select().exists()
    # More arrives, so the batch that is indexed again is a larger one.
    record(run, line(time.time(), a=50))
    recording.index_all()
    stream = Stream.get(owner=run_owner(run.id))
    assert (stream.indexed, stream.recorded) == (stream.size, 101)
    expected = [*(("a", str(i)) for i in range(51)), *[("text", "x")] * 50]
    assert recorded(run) == sorted(expected)
    assert reload(run).target["value"] == 97


def test_many_batches_of_lines_that_arrive_in_parts(
    run: Run, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "BATCH_BYTES", 100)
    start = time.time() - 5
    data = b"".join(line(start + i / 1000, a=i) for i in range(60))
    for offset in range(0, len(data), 61):
        record(run, data[offset : offset + 61])
        recording.index_all()
    assert recorded(run) == sorted(("a", str(i)) for i in range(60))
    assert not Chunk.select().exists()


def test_indexed_lines_are_deleted_and_logs_are_kept(run: Run, recording: Recording) -> None:
    owners = [run_owner(run.id), run_owner(make_run(state="FAILED").id), f"pod/w-{run.id}"]
    for owner in owners:
        post(owner, [Sample("a", "", time.time_ns() // 1000, 1.0)])
    streams.append(streams.StreamKey(owners[0], 1, 0, "stdout"), 0, b"no sample\n")
    recording.index_all()
    assert [chunk.stream.name for chunk in Chunk.select()] == ["stdout"]
    assert {block.owner for block in Block.select()} == set(owners)


def test_a_torn_last_line_waits_until_the_stream_is_closed(run: Run, recording: Recording) -> None:
    now = time.time()
    torn = line(now, a=2)[:-9]
    record(run, line(now, a=1) + torn)
    recording.index_all()
    assert recorded(run) == [("a", "1")]
    streams.close(run.id, 1, 0, {})
    recording.index_all()
    assert recorded(run) == [("a", "1"), ("malformed", torn.decode())]
    whole = record(run, line(now, a=3)[:-1], rank=1)
    streams.close(run.id, 1, 1, {"metrics": whole.size})
    recording.index_all()
    assert recorded(run) == [("a", "1"), ("a", "3"), ("malformed", torn.decode())]


def test_a_line_longer_than_a_batch_stops_no_stream(run: Run, recording: Recording) -> None:
    now = time.time()
    long = line(now, text="x" * (2 * BATCH_BYTES))
    third = len(long) // 3
    record(run, line(now, a=1) + long[:third])
    recording.index_all()
    assert recorded(run) == [("a", "1")], "a part of a line was indexed"
    record(run, long[third:] + line(now + 1, a=2))
    recording.index_all()
    # It is cut in three, and the beginning of each piece is shown.
    first, second, *malformed = recorded(run)
    assert (first, second) == (("a", "1"), ("a", "2"))
    assert [metric for metric, _ in malformed] == ["malformed"] * 3
    assert f"{long[:4096].decode()}… ({BATCH_BYTES:,} bytes)" in [text for _, text in malformed]
    assert all(len(text) < 5_000 for _, text in malformed)


def test_a_deleted_run_is_skipped(run: Run, recording: Recording) -> None:
    stream = record(run, line(time.time(), a=1, b="text"))
    stream.delete_instance()
    assert recording.indexer._index([stream]) == 0
    assert not Block.select().exists()


def test_a_failing_stream_delays_none(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad, better = (make_run() for _ in range(3))
    for run in (good, bad, better):
        record(run, line(time.time(), a=1))
    add = blocks.add

    def fails(owner: str, samples: list[Sample], *, is_posted: bool) -> None:
        assert owner != run_owner(bad.id)
        add(owner, samples, is_posted=is_posted)

    monkeypatch.setattr(blocks, "add", fails)
    indexer = Indexer()
    indexer.index_waiting()
    assert {stream.owner for stream in streams.waiting()} == {run_owner(bad.id)}
    record(run, line(time.time() + 1, a=2))
    stop = Patience(times=1)
    indexer.run(stop, idle_seconds=1)
    assert stop.waits == [1, 1], "the others wait for it no longer than always"
    assert {stream.owner for stream in streams.waiting()} == {run_owner(bad.id)}
    monkeypatch.undo()
    stop = Patience(times=1)
    time.sleep(0.5)
    indexer.run(stop, idle_seconds=1)
    assert recorded(bad) == [("a", "1")]


def test_active_runs_are_indexed_first(recording: Recording) -> None:
    first, active, second = make_run(state="FINISHED"), make_run(), make_run(state="FINISHED")
    for run in (first, active, second):
        record(run, line(time.time(), a=1))
    recording.index_all()
    owners = [block.owner for block in Block.select().order_by(Block.id)]
    assert owners == [run_owner(run.id) for run in (active, first, second)]


def test_two_controllers_index_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is about to end, the other has begun, and both have looked at the same time."""
    now = time.time()
    first, second = line(now, a=1, text="x"), line(now + 1, a=2, text="y")
    monkeypatch.setattr(indexing, "BATCH_BYTES", len(first) + 5)
    seen = record(run, first + second)
    for indexer in (Indexer(), Indexer()):
        indexer._index([seen])
        stream = Stream.get(owner=run_owner(run.id))
        assert (stream.indexed, stream.recorded) == (len(first), 2)
        assert recorded(run) == [("a", "1"), ("text", "x")]
