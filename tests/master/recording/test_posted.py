"""Posted bodies are stored once, and those that arrive together in one transaction."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from peewee import Database

from mlbench_master.group_commit import GroupCommit
from mlbench_master.models import Run, Stream, run_owner
from mlbench_master.recording.samples import Sample, parse_posted
from mlbench_master.recording.streams import POSTED, read
from tests.support.rows import get_stream, key, post, record

SAMPLE = Sample("a", "3", 1_000_001, 0.1, True, {"any": ["JSON"]})


def posted(owner: str) -> list[Sample]:
    stream = Stream.get(owner=owner, name=POSTED)
    return list(parse_posted(read(stream, 0, stream.size)))


@pytest.mark.both_databases
def test_the_same_body_is_stored_once_for_each_owner(run: Run) -> None:
    owner = run_owner(run.id)
    record(run, b"recorded\n")
    other = SAMPLE._replace(value="text")
    for body in ([SAMPLE], [SAMPLE, other], [SAMPLE], [SAMPLE, other], [SAMPLE, SAMPLE]):
        post(owner, body)
        post("pod/w-0", body)
    # A new list is stored whole: its client may mean another sample that looks alike.
    assert posted(owner) == posted("pod/w-0") == [SAMPLE, SAMPLE, other]
    assert read(get_stream(key(run)), 0, 100) == b"recorded\n"


@pytest.mark.both_databases
def test_threads_that_post_the_same_body_store_it_once(run: Run, database: Database) -> None:
    owner = run_owner(run.id)

    def send(_: int) -> None:
        for i in range(10):
            post(owner, [SAMPLE._replace(time_us=i), SAMPLE])
        database.close()  # this thread's connection

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    assert sorted(posted(owner)) == sorted(
        sample for i in range(10) for sample in (SAMPLE._replace(time_us=i), SAMPLE)
    )


class Ledger:
    """Writes down batches; the first waits until it may go on. Refuses a batch with a bad item."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def write_all(self, items: Sequence[int]) -> list[int]:
        self.begun.set()
        assert self.go_on.wait(10)
        if any(item < 0 for item in items):
            raise ValueError(f"bad among {len(items)}")
        self.batches.append(list(items))
        return [10 * item for item in items]


@pytest.mark.parametrize("items", [[1, 2, 3, 4], [1, 2, -3, 4]])
def test_items_that_arrive_meanwhile_are_one_batch_and_errors_stay_apart(items: list[int]) -> None:
    ledger = Ledger()
    group = GroupCommit(ledger.write_all)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(group.write, 0)
        assert ledger.begun.wait(10)
        others = {item: pool.submit(group.write, item) for item in items}
        while len(group._waiting) < 4:
            assert not first.done()
        ledger.go_on.set()
        assert first.result() == 0
        for item, written in others.items():
            if item < 0:
                with pytest.raises(ValueError, match="bad among 1"):
                    written.result()
            else:
                assert written.result() == 10 * item
    assert sorted(item for batch in ledger.batches for item in batch) == [
        0,
        *(item for item in items if item > 0),
    ]
    assert len(ledger.batches) == (2 if min(items) > 0 else 4)
