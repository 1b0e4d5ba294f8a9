"""The limit of series: what is admitted once always is, and what is refused is told briefly."""

import pytest

from master.models import Run, SeriesName, run_owner
from master.recording.limits import SeriesLimit, TooManySeriesError, admit, split, summarize
from master.recording.samples import MALFORMED, Sample

pytestmark = pytest.mark.both_databases

KEYS = [(name, rank) for rank in "01" for name in "abc"]


def test_those_that_come_first_are_admitted(run: Run) -> None:
    owner = run_owner(run.id)
    for _ in range(2):
        assert admit(owner, KEYS, most=4) == {("b", "1"), ("c", "1")}
        assert not admit(owner, [*reversed(KEYS[:4]), (MALFORMED, "0")], most=1)
    assert SeriesName.select().count() == 4
    assert not admit("pod/w-0", KEYS, most=6)


def test_all_of_a_request_or_none(run: Run) -> None:
    limit, owner = SeriesLimit(most=4), run_owner(run.id)
    for _ in range(2):
        with pytest.raises(TooManySeriesError, match=f"run {run.id} has more than 4 .*'b @ 1'"):
            limit.check(owner, KEYS)
        assert SeriesName.select().count() == 0
    limit.check(owner, KEYS[:4])
    limit.check(owner, KEYS[:4])
    with pytest.raises(TooManySeriesError):
        limit.check(owner, KEYS[3:5])
    SeriesLimit(most=1).check(owner, KEYS[:4])


def test_one_sample_tells_of_all_that_are_refused() -> None:
    samples = [Sample(f"x{i % 50}", "0", i, 1.0) for i in range(2_000)]
    admitted, refused = split(samples, {(f"x{i}", "0") for i in range(1, 50)})
    assert len(admitted) == 40
    told = summarize(refused, "3", 7, most=1)
    names = ", ".join(f"x{i} @ 0" for i in range(1, 11))
    assert told == Sample(
        MALFORMED,
        "3",
        7,
        f"1,960 samples of 49 series beyond the limit of 1 are refused: {names}, …",
    )
