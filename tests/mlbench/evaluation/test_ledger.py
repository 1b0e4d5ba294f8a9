"""Ledger of a benchmark set: which runs count, and whether it matches its archives."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.records import Planned, Run, RunSet, Slot
from mlbench.evaluation.official_rules import (
    Entry,
    SetAtSealing,
    check_ledger,
    describe,
    next_seed,
    run_names,
    slots_of,
)
from tests.support.results import make_run

PLAN = [Planned(2, 1), Planned(1, 1), Planned(2, 2), Planned(1, 2)]


def entry(slot: int, run_id: int, state: str = "FINISHED", **given: Any) -> Entry:
    return Entry(slot, run_id, given.pop("seed", run_id), state, "", **given)


def slots(*entries: Entry, official: bool = False) -> tuple[Slot, ...]:
    return slots_of("set", PLAN, entries, official=official)


def remarks(slot: Slot) -> list[tuple[int, bool, str]]:
    return [(trial.run_id, trial.counts, trial.remark) for trial in slot.trials]


def test_a_crashed_run_is_kept_and_repeated_with_a_new_seed() -> None:
    found = slots(entry(1, 7, "FAILED"), entry(2, 8), entry(3, 9, "STARTED"))
    assert [slot.is_open for slot in found] == [True, False, False, True]
    expected = [(7, False, "crashed"), (8, True, ""), (9, False, "running")]
    assert [remark for slot in found for remark in remarks(slot)] == expected
    assert [next_seed(slot, found) for slot in found if slot.is_open] == [10, 2]
    again = slots(entry(1, 7, "FAILED"), entry(1, 10))
    assert remarks(again[0]) == [(7, False, "crashed"), (10, True, "")]
    assert describe(again) == "1 of 4 slots have a run that counts; 2 runs; 1 crashed"

    # A task without seeds gets no new one.
    [slot] = slots_of("set", [Planned(1, None)], [entry(1, 7, "FAILED", seed=None)], official=False)
    assert next_seed(slot, [slot]) is None


def test_a_deleted_run_stays_in_the_ledger() -> None:
    found = slots(entry(1, 7, deleted=True), entry(1, 8))
    assert remarks(found[0]) == [(7, False, "deleted"), (8, True, "")]
    assert describe(found) == "1 of 4 slots have a run that counts; 2 runs; 1 deleted"


def test_replacement_runs_of_earlier_versions_count() -> None:
    [first, *_] = slots(entry(1, 1, disturbed=True), entry(1, 2))
    assert remarks(first) == [(1, False, "disturbed: run 2 stands in for it"), (2, True, "")]
    [first, *_] = slots(entry(1, 1, disturbed=True), entry(1, 2, disturbed=True))
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
def test_every_run_of_an_official_set_counts_and_is_not_repeated(ended: Entry, remark: str) -> None:
    found = slots(ended, entry(2, 8, "STARTED"), official=True)
    assert [slot.is_open for slot in found] == [False, False, True, True]
    assert remarks(found[0]) == [(7, True, remark)]
    assert remarks(found[1]) == [(8, False, "running")]


def test_a_slot_is_named_by_its_workers_combination_and_repeat() -> None:
    assert run_names("set", PLAN) == ["set-w2-r1", "set-w1-r1", "set-w2-r2", "set-w1-r2"]
    flat, bucketed = {"exchange": "flat"}, {"exchange": "bucketed"}
    plan = [Planned(2, 1, flat), Planned(2, 1, bucketed), Planned(2, 2, bucketed)]
    assert run_names("set", plan) == ["set-w2-c1-r1", "set-w2-c2-r1", "set-w2-c2-r2"]


_AT = "2026-11-24T07:13:14.073824Z"
_PLAN = [Planned(1, seed) for seed in (1, 2, 3)]
# The first run of slot 2 was disturbed, and an earlier version replaced it.
_ENTRIES = [
    Entry(1, 4, 1, "FINISHED", ""),
    Entry(2, 5, 2, "FINISHED", "", disturbed=True),
    Entry(2, 6, 2, "FINISHED", ""),
    Entry(3, 7, 3, "FINISHED", ""),
]
_Archived = Mapping[int, tuple[Run, SetAtSealing | None]]


def made(entries: list[Entry], plan: list[Planned] = _PLAN, created_at: str = _AT) -> RunSet:
    slots = slots_of("a", plan, entries, official=False)
    return RunSet("a", created_at, False, None, {}, slots, describe(slots))


_HONEST = made(_ENTRIES)


def archived(*, states_set: bool) -> dict[int, tuple[Run, SetAtSealing | None]]:
    """Return the records in the archives of the unmodified set."""
    names = {slot.number: slot.name for slot in _HONEST.slots}
    found = {}
    for i, entry in enumerate(_ENTRIES):
        run = make_run(id=entry.run_id, name=names[entry.slot], set_name="a", slot=entry.slot)
        run = replace(run, num_workers=1, seed=entry.seed, state="FINISHED", reason="")
        run = replace(run, created_at=f"2026-11-24T07:13:{15 + i}Z", disturbed=entry.disturbed)
        before = tuple(other.run_id for other in _ENTRIES[:i])
        in_set = SetAtSealing(_AT, _HONEST.plan_sha256, before) if states_set else None
        found[entry.run_id] = run, in_set
    return found


@pytest.mark.parametrize("states_set", [True, False])
def test_an_unmodified_ledger_has_no_problem(*, states_set: bool) -> None:
    assert check_ledger(_HONEST, archived(states_set=states_set)) == ([], [])


def test_a_removed_run_is_detected() -> None:
    forged = made([entry for entry in _ENTRIES if entry.run_id != 5])
    left = {run_id: of_run for run_id, of_run in archived(states_set=True).items() if run_id != 5}
    problems, _ = check_ledger(forged, left)
    assert problems[0] == "run 6: the ledger lacks run 5 of its set"
    # Archives of earlier versions do not list earlier runs, so only the gap is noted.
    old: _Archived = {run_id: (run, None) for run_id, (run, _) in left.items()}
    note = "run 5 was submitted between the runs of this set: of another set, or left out"
    assert check_ledger(forged, old) == ([], [note])


@pytest.mark.parametrize("states_set", [True, False])
def test_a_wrong_counting_or_disturbed_run_is_detected(*, states_set: bool) -> None:
    archives = archived(states_set=states_set)
    first, second, third = _HONEST.slots
    swapped = tuple(replace(trial, counts=not trial.counts) for trial in second.trials)
    slots = (first, replace(second, trials=swapped), third)
    problems, _ = check_ledger(replace(_HONEST, slots=slots), archives)
    assert problems == ["slot 2: run 6 counts, the ledger has run 5"]
    quiet = [replace(entry, disturbed=False) for entry in _ENTRIES]
    problems, _ = check_ledger(made(quiet), archives)
    assert problems[0] == "run 5: the ledger has disturbed False, its archive True"


def test_a_changed_registration_time_or_plan_is_detected() -> None:
    early, late = "2025-12-24T00:00:00Z", "2026-11-24T07:13:16.5Z"
    earlier, _ = check_ledger(made(_ENTRIES, created_at=early), archived(states_set=True))
    assert len(earlier) == 4
    assert earlier[0].endswith(f"registered at {_AT}, not at {early}")
    [later, *_], _ = check_ledger(made(_ENTRIES, created_at=late), archived(states_set=False))
    assert re.fullmatch(r"run 4: it was submitted at .*, before the set was registered", later)
    # One repeat is missing: slot 3 with its run.
    shorter = made(_ENTRIES[:3], _PLAN[:2])
    left = {run_id: its for run_id, its in archived(states_set=True).items() if run_id != 7}
    problems, _ = check_ledger(shorter, left)
    assert all(re.match(r"run \d: its set had the plan \w+, not \w+", text) for text in problems)
    assert len(problems) == 3


def test_a_wrong_summary_and_a_foreign_run_are_detected() -> None:
    runs = archived(states_set=True)
    problems, _ = check_ledger(replace(_HONEST, text="3 of 3 slots; 3 runs"), runs)
    assert len(problems) == 1
    assert problems[0].startswith("the ledger says '3 of 3 slots; 3 runs', and its runs give")
    problems, _ = check_ledger(_HONEST, runs | {9: runs[4]})
    assert problems == ["run 9 is none of the ledger's"]
