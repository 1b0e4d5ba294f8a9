"""The ledger of a benchmark set: which runs count, and which places want another. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import Planned, SetPlace, Trial
from mlbench.contract.words import count


@dataclass(frozen=True)
class Entry:
    """What the ledger keeps of a run, also of a deleted one."""

    place: int
    run_id: int
    seed: int | None
    state: str
    reason: str
    disturbed: bool = False
    deleted: bool = False

    @property
    def finished(self) -> bool:
        """Whether it can count: it finished, and its result is still there."""
        return self.state == "FINISHED" and not self.deleted


def run_names(name: str, plan: Sequence[Planned]) -> list[str]:
    """Return the name of each place's runs: ``scaling-w2-r1``, or ``scaling-w2-c3-r1`` in a sweep.

    Combinations of swept values have the numbers in which they come first.
    """
    numbers: dict[str, int] = {}
    repeats: Counter[str] = Counter()
    run_names_of = []
    for planned in plan:
        number = numbers.setdefault(_combination(planned), len(numbers) + 1)
        stem = f"{name}-w{planned.num_workers}" + (f"-c{number}" if planned.swept else "")
        repeats[stem] += 1
        run_names_of.append(f"{stem}-r{repeats[stem]}")
    return run_names_of


def places_of(
    name: str, plan: Sequence[Planned], entries: Iterable[Entry], *, official: bool
) -> tuple[SetPlace, ...]:
    """Return the places of a set with what was run there."""
    at: dict[int, list[Entry]] = {number: [] for number in range(1, len(plan) + 1)}
    for entry in sorted(entries, key=lambda entry: entry.run_id):
        at[entry.place].append(entry)
    named = zip(plan, run_names(name, plan), strict=True)
    return tuple(
        SetPlace(
            number,
            run_name,
            planned.num_workers,
            planned.seed,
            not at[number] if official else _is_open(at[number]),
            _judge(at[number], official=official),
            planned.swept,
            planned.faults,
        )
        for number, (planned, run_name) in enumerate(named, 1)
    )


def next_seed(place: SetPlace, places: Iterable[SetPlace]) -> int | None:
    """Return the seed of a place's next run: the registered one for the first run.

    A run that crashed may have done so because of its seed, so the next one gets an unused seed.
    """
    if place.seed is None or not place.trials:
        return place.seed
    used = [seed for slot in places for seed in (slot.seed, *(trial.seed for trial in slot.trials))]
    return max(seed for seed in used if seed is not None) + 1


def describe(places: Sequence[SetPlace]) -> str:
    """Say how many places have a run that counts, and what became of the other runs."""
    done = sum(any(trial.counts for trial in place.trials) for place in places)
    trials = [trial for place in places for trial in place.trials]
    happened = {
        "crashed": sum(trial.state == "FAILED" for trial in trials),
        "stopped": sum(trial.state == "STOPPED" for trial in trials),
        "disturbed": sum(trial.disturbed for trial in trials),
        "deleted": sum(trial.deleted for trial in trials),
    }
    counts = [f"{times} {what}" for what, times in happened.items() if times]
    have = f"{done} of {len(places)} places have a run that counts"
    return "; ".join([have, count(len(trials), "run"), *counts])


def _combination(place: Planned) -> str:
    return json.dumps(place.swept, sort_keys=True)


def _is_open(entries: Sequence[Entry]) -> bool:
    """Check if a place lacks a run: none is active, and none has finished."""
    return not any(entry.state in ACTIVE_STATES or entry.finished for entry in entries)


def _counted(entries: Sequence[Entry]) -> Entry | None:
    """Return the run that counts: the one that finished.

    Earlier versions ran another one in place of a disturbed run. In their sets the first
    undisturbed run counts, else the last.
    """
    finished = [entry for entry in entries if entry.finished]
    undisturbed = (one for one in finished if not one.disturbed)
    return next(undisturbed, finished[-1] if finished else None)


def _judge(entries: Sequence[Entry], *, official: bool) -> tuple[Trial, ...]:
    """Judge runs. MLPerf counts each: one that failed, or was deleted, took infinitely long."""
    counted = _counted(entries)

    def trial(entry: Entry) -> Trial:
        ended = entry.deleted or entry.state not in ACTIVE_STATES
        counts = ended if official else entry is counted
        remark = _remark(entry, entry if official else counted)
        return Trial(**vars(entry), counts=counts, remark=remark)

    return tuple(map(trial, entries))


def _remark(entry: Entry, counted: Entry | None) -> str:
    """Say why a run does not count, or as what."""
    if entry.finished and entry.disturbed and entry is not counted:
        stand_in = "" if counted is None else f": run {counted.run_id} stands in for it"
        return f"disturbed{stand_in}"
    if entry.finished:
        return "disturbed" if entry.disturbed else ""
    if entry.deleted:
        remark = "deleted"
    elif entry.state in ACTIVE_STATES:
        return "goes on"
    else:
        remark = "crashed" if entry.state == "FAILED" else "stopped"
    return f"{remark}: it counts as infinitely slow" if entry is counted else remark
