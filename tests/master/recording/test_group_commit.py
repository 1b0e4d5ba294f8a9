"""Group commit: every item is written once, before its writer goes on, and errors stay apart."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from master.recording.posted import GroupCommit


class Ledger:
    """Writes down batches; the first waits until it may go on. Refuses a batch with a bad item."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def write_all(self, items: Sequence[int]) -> None:
        self.begun.set()
        assert self.go_on.wait(10)
        if any(item < 0 for item in items):
            raise ValueError(f"bad among {len(items)}")
        self.batches.append(list(items))


def test_what_comes_meanwhile_is_one_batch() -> None:
    ledger = Ledger()
    group = GroupCommit(ledger.write_all)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(group.write, 0)
        assert ledger.begun.wait(10)
        others = [pool.submit(group.write, item) for item in range(1, 9)]
        while len(group._waiting) < 8:
            assert not first.done()
        ledger.go_on.set()
        for written in (first, *others):
            written.result()
    assert ledger.batches[0] == [0]
    assert sorted(ledger.batches[1]) == list(range(1, 9))
    assert len(ledger.batches) == 2


def test_an_error_is_that_of_its_own_item() -> None:
    ledger = Ledger()
    group = GroupCommit(ledger.write_all)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(group.write, 0)
        assert ledger.begun.wait(10)
        others = {item: pool.submit(group.write, item) for item in (1, 2, -3, 4)}
        while len(group._waiting) < 4:
            assert not first.done()
        ledger.go_on.set()
        with pytest.raises(ValueError, match="bad among 1"):
            others.pop(-3).result()
        for written in (first, *others.values()):
            written.result()
    assert sorted(item for batch in ledger.batches for item in batch) == [0, 1, 2, 4]


def test_many_writers_write_everything_once() -> None:
    written: list[int] = []
    group = GroupCommit(written.extend)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(group.write, range(4_000)))
    assert sorted(written) == list(range(4_000))
