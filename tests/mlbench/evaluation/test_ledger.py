"""The ledger of a set: which runs count, and which places want another."""

from typing import Any

import pytest

from mlbench.contract.records import Planned, SetPlace
from mlbench.evaluation.official_rules import Entry, describe, next_seed, places_of, run_names

PLAN = [Planned(2, 1), Planned(1, 1), Planned(2, 2), Planned(1, 2)]


def entry(place: int, run_id: int, state: str = "FINISHED", **given: Any) -> Entry:
    return Entry(place, run_id, given.pop("seed", run_id), state, "", **given)


def places(*entries: Entry, official: bool = False) -> tuple[SetPlace, ...]:
    return places_of("set", PLAN, entries, official=official)


def remarks(place: SetPlace) -> list[tuple[int, bool, str]]:
    return [(one.run_id, one.counts, one.remark) for one in place.trials]


def test_a_place_is_named_by_its_workers_and_repeat() -> None:
    assert run_names("set", PLAN) == ["set-w2-r1", "set-w1-r1", "set-w2-r2", "set-w1-r2"]


def test_a_run_that_crashed_stays_and_another_may_be_run_with_a_fresh_seed() -> None:
    found = places(entry(1, 7, "FAILED"), entry(2, 8), entry(3, 9, "STARTED"))
    assert [place.is_open for place in found] == [True, False, False, True]
    assert remarks(found[0]) == [(7, False, "crashed")]
    assert remarks(found[1]) == [(8, True, "")]
    assert remarks(found[2]) == [(9, False, "goes on")]
    assert [next_seed(place, found) for place in found if place.is_open] == [10, 2]
    again = places(entry(1, 7, "FAILED"), entry(1, 10))
    assert remarks(again[0]) == [(7, False, "crashed"), (10, True, "")]
    assert describe(again) == "1 of 4 places have a run that counts; 2 runs; 1 crashed"


def test_a_task_without_seeds_has_none() -> None:
    [place] = places_of(
        "set", [Planned(1, None)], [entry(1, 7, "FAILED", seed=None)], official=False
    )
    assert next_seed(place, [place]) is None


def test_a_deleted_run_leaves_its_trace() -> None:
    found = places(entry(1, 7, deleted=True), entry(1, 8))
    assert remarks(found[0]) == [(7, False, "deleted"), (8, True, "")]
    assert describe(found) == "1 of 4 places have a run that counts; 2 runs; 1 deleted"


def test_contention_never_opens_a_place_again() -> None:
    found = places(entry(1, 1, disturbed=True), entry(2, 2))
    assert [place.is_open for place in found] == [False, False, True, True]
    assert remarks(found[0]) == [(1, True, "disturbed")]


def test_stand_ins_of_earlier_versions_still_count() -> None:
    [first, *_] = places(entry(1, 1, disturbed=True), entry(1, 2))
    assert remarks(first) == [(1, False, "disturbed: run 2 stands in for it"), (2, True, "")]
    [first, *_] = places(entry(1, 1, disturbed=True), entry(1, 2, disturbed=True))
    assert [trial.counts for trial in first.trials] == [False, True]


@pytest.mark.parametrize(
    ("ended", "remark"),
    [
        (entry(1, 7, "FAILED"), "crashed: it counts as infinitely slow"),
        (entry(1, 7, "STOPPED"), "stopped: it counts as infinitely slow"),
        (entry(1, 7, deleted=True), "deleted: it counts as infinitely slow"),
        (entry(1, 7, disturbed=True), "disturbed"),
    ],
)
def test_of_an_official_set_every_run_counts_and_none_is_run_again(
    ended: Entry, remark: str
) -> None:
    found = places(ended, entry(2, 8, "STARTED"), official=True)
    assert [place.is_open for place in found] == [False, False, True, True]
    assert remarks(found[0]) == [(7, True, remark)]
    assert remarks(found[1]) == [(8, False, "goes on")]


def test_a_sweep_names_its_combinations_by_their_numbers() -> None:
    flat, bucketed = {"exchange": "flat"}, {"exchange": "bucketed"}
    plan = [Planned(2, 1, flat), Planned(2, 1, bucketed), Planned(2, 2, bucketed)]
    assert run_names("set", plan) == ["set-w2-c1-r1", "set-w2-c2-r1", "set-w2-c2-r2"]
