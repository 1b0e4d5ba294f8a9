"""Items that threads write at the same time share a transaction, and each has its own error."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlbench_master.database.group_commit import GroupCommit


class Ledger:
    """Notes batches; the first one waits to be released. Refuses a batch with a bad item."""

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
    stored = sorted(item for batch in ledger.batches for item in batch)
    assert stored == [0, *(item for item in items if item > 0)]
    assert len(ledger.batches) == (2 if min(items) > 0 else 4)
