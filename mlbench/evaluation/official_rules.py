"""Rules of official results: ledgers of benchmark sets, and divisions.

From the archives of a set, everything in its ledger is recomputed: the end of each run, the runs
that count, and the summary. Each archive also reports the set as it was when its run was sealed, so
that a set cannot be registered again, or lose a slot or a run, without a contradiction. Archives
of earlier versions report no set; there, only a gap between ids can show a missing run.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Protocol, get_args

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.comparisons import Convergence, Score
from mlbench.contract.extensions import load_all
from mlbench.contract.humanize import count, numbered
from mlbench.contract.names import ACTIVE_STATES, RunState
from mlbench.contract.records import (
    Division,
    Machine,
    Planned,
    Record,
    Run,
    RunSet,
    Slot,
    SlotState,
    Trial,
)
from mlbench.contract.results import Result
from mlbench.contract.runspec import IMPAIRMENTS, options_of
from mlbench.evaluation.inputs import RunRow
from mlbench.evaluation.run_attributes import to_text

# --- Ledger ---


@dataclass(frozen=True)
class Entry:
    """Run of a benchmark set as the ledger keeps it, even after the run is deleted."""

    slot: int
    run_id: int
    seed: int | None
    state: str
    reason: str
    disturbed: bool = False
    deleted: bool = False

    @property
    def finished(self) -> bool:
        """Whether the run finished and is not deleted, so that it can count."""
        return self.state == "FINISHED" and not self.deleted


def run_names(name: str, plan: Sequence[Planned]) -> list[str]:
    """Return the name of each slot's runs: ``scaling-w2-r1``, or ``scaling-w2-c3-r1`` in a sweep.

    Combinations of swept values are numbered in the order in which they first occur.
    """
    numbers: dict[str, int] = {}
    repeats: Counter[str] = Counter()
    names = []
    for planned in plan:
        combination = json.dumps(planned.swept, sort_keys=True)
        number = numbers.setdefault(combination, len(numbers) + 1)
        stem = f"{name}-w{planned.num_workers}" + (f"-c{number}" if planned.swept else "")
        repeats[stem] += 1
        names.append(f"{stem}-r{repeats[stem]}")
    return names


def slots_of(
    name: str, plan: Sequence[Planned], entries: Iterable[Entry], *, official: bool
) -> tuple[Slot, ...]:
    """Return the slots of a set with the runs that were started there."""
    at: dict[int, list[Entry]] = {number: [] for number in range(1, len(plan) + 1)}
    for entry in sorted(entries, key=lambda entry: entry.run_id):
        at[entry.slot].append(entry)
    slots = []
    for (number, runs), planned, run_name in zip(
        at.items(), plan, run_names(name, plan), strict=True
    ):
        # A slot of an official set has one run; others need one that is active or finished.
        is_taken = any(run.state in ACTIVE_STATES or run.finished for run in runs)
        slots.append(
            Slot(
                number,
                run_name,
                planned.num_workers,
                planned.seed,
                not (runs if official else is_taken),
                _judge(runs, official=official),
                planned.swept,
                planned.faults,
            )
        )
    return tuple(slots)


def next_seed(slot: Slot, slots: Iterable[Slot]) -> int | None:
    """Return the seed of a slot's next run: the registered one for the first run.

    A run that crashed may have done so because of its seed, so the next one gets an unused seed.
    """
    if slot.seed is None or not slot.trials:
        return slot.seed
    used = [
        seed for other in slots for seed in (other.seed, *(trial.seed for trial in other.trials))
    ]
    return max(seed for seed in used if seed is not None) + 1


def waiting_slots(slots: Iterable[Slot], resumed_after: int) -> tuple[int, ...]:
    """Return the numbers of the slots whose runs are still to be submitted, in order.

    Each open slot gets one run. A run that failed is replaced only if the set was resumed since,
    when its newest run had the id ``resumed_after``.
    """
    return tuple(
        slot.number
        for slot in slots
        if slot.is_open and all(trial.run_id <= resumed_after for trial in slot.trials)
    )


def progress(slots: Iterable[Slot], waiting: Collection[int]) -> dict[SlotState, int]:
    """Return the number of slots in each state; ``waiting`` are the slots that still get a run."""
    ends: Mapping[RunState, SlotState] = {"FAILED": "failed", "STOPPED": "stopped"}
    states: Counter[SlotState] = Counter()
    for slot in slots:
        if slot.active:
            states["running"] += 1
        elif slot.finished:
            states["done"] += 1
        else:
            has_ended = slot.trials and slot.number not in waiting
            states[ends.get(slot.trials[-1].state, "planned") if has_ended else "planned"] += 1
    return {state: states[state] for state in get_args(SlotState)}


def describe(slots: Sequence[Slot]) -> str:
    """Say how many slots have a run that counts, and how the other runs ended."""
    done = sum(any(trial.counts for trial in slot.trials) for slot in slots)
    trials = [trial for slot in slots for trial in slot.trials]
    times = {
        "crashed": sum(trial.state == "FAILED" for trial in trials),
        "stopped": sum(trial.state == "STOPPED" for trial in trials),
        "disturbed": sum(trial.disturbed for trial in trials),
        "deleted": sum(trial.deleted for trial in trials),
    }
    counts = [f"{number} {end}" for end, number in times.items() if number]
    text = f"{done} of {len(slots)} slots have a run that counts"
    return "; ".join([text, count(len(trials), "run"), *counts])


def _judge(entries: Sequence[Entry], *, official: bool) -> tuple[Trial, ...]:
    """Judge the runs of a slot: the one that finished counts.

    MLPerf counts each run: one that failed, or was deleted, took infinitely long. Earlier versions
    ran another run in the slot of a disturbed one. In their sets the first undisturbed run counts,
    else the last.
    """
    finished = [entry for entry in entries if entry.finished]
    undisturbed = (entry for entry in finished if not entry.disturbed)
    counted = next(undisturbed, finished[-1] if finished else None)
    trials = []
    for entry in entries:
        ended = entry.deleted or entry.state not in ACTIVE_STATES
        counts = ended if official else entry is counted
        # The remark says why a run does not count, or how it counts.
        remark = ""
        if entry.finished and entry.disturbed:
            remark = "disturbed"
            if not counts and counted:
                remark += f": run {counted.run_id} stands in for it"
        elif not ended:
            remark = "running"
        elif not entry.finished:
            end = "crashed" if entry.state == "FAILED" else "stopped"
            remark = "deleted" if entry.deleted else end
            remark += ": it counts as infinitely slow" * counts
        trials.append(Trial(**vars(entry), counts=counts, remark=remark))
    return tuple(trials)


# --- Agreement of a ledger and its archives ---


@dataclass(frozen=True)
class SetAtSealing(Record):
    """State of the benchmark set of an archived run when the run was sealed."""

    created_at: str
    plan_sha256: str
    runs: tuple[int, ...]
    """Ids of the earlier runs of the set, including deleted ones."""


def check_ledger(
    run_set: RunSet, archived: Mapping[int, tuple[Run, SetAtSealing | None]]
) -> tuple[list[str], list[str]]:
    """Compare a set with the archives of its runs, by their ids; return problems and notes."""
    trials = {trial.run_id: (slot, trial) for slot in run_set.slots for trial in slot.trials}
    problems = [f"run {run_id} is none of the ledger's" for run_id in archived.keys() - trials]
    for run_id, (run, at_sealing) in sorted(archived.items()):
        if run_id in trials:
            texts = _contradictions(run_set, *trials[run_id], run, at_sealing)
            problems += [f"run {run_id}: {text}" for text in texts]
    problems += _recomputed(run_set, archived)
    between = [run_id for a, b in pairwise(sorted(trials)) for run_id in range(a + 1, b)]
    if problems or not between:
        return problems, []
    verb = "was" if len(between) == 1 else "were"
    others = f"{numbered('run', between)} {verb} submitted between the runs of this set"
    return [], [f"{others}: of another set, or left out"]


def _contradictions(
    run_set: RunSet, slot: Slot, trial: Trial, run: Run, at_sealing: SetAtSealing | None
) -> Iterator[str]:
    """Yield the contradictions between a set and the archive of one of its runs."""
    both = {
        "set": (run_set.name, run.set_name),
        "slot": (slot.number, run.slot),
        "name": (slot.name, run.resource_name),
        "workers": (slot.num_workers, run.num_workers),
        "swept values": (dict(slot.swept), dict(run.swept)),
        "seed": (trial.seed, run.seed),
        "state": (trial.state, run.state),
        "reason": (trial.reason, run.reason),
        "disturbed": (trial.disturbed, run.disturbed),
    }
    for name, (listed, sealed) in both.items():
        if listed != sealed:
            yield f"the ledger has {name} {listed!r}, its archive {sealed!r}"
    if run.created_at < run_set.created_at:
        yield f"it was submitted at {run.created_at}, before the set was registered"
    if at_sealing is None:
        return
    if at_sealing.created_at != run_set.created_at:
        yield f"its set was registered at {at_sealing.created_at}, not at {run_set.created_at}"
    if at_sealing.plan_sha256 != run_set.plan_sha256:
        yield f"its set had the plan {at_sealing.plan_sha256}, not {run_set.plan_sha256}"
    listed_ids = {trial.run_id for slot in run_set.slots for trial in slot.trials}
    if missing := sorted({*at_sealing.runs} - listed_ids):
        yield f"the ledger lacks {numbered('run', missing)} of its set"


def _recomputed(
    run_set: RunSet, archived: Mapping[int, tuple[Run, SetAtSealing | None]]
) -> Iterator[str]:
    """Yield the differences between the ledger and its recomputation from the archives."""
    entries = []
    for slot in run_set.slots:
        for trial in slot.trials:
            run, _ = archived.get(trial.run_id, (None, None))
            source = run or trial
            entry = (trial.slot, trial.run_id, trial.seed, source.state, source.reason)
            entries.append(Entry(*entry, source.disturbed, trial.deleted))
    plan = [Planned(p.num_workers, p.seed, p.swept, p.faults) for p in run_set.slots]
    slots = slots_of(run_set.name, plan, entries, official=run_set.official)
    for slot, listed in zip(slots, run_set.slots, strict=True):
        counted, claimed = ([t.run_id for t in p.trials if t.counts] for p in (slot, listed))
        if counted != claimed:
            text = f"{_those(counted)} counts, the ledger has {_those(claimed)}"
            yield f"slot {slot.number}: {text}"
    if (text := describe(slots)) != run_set.text:
        yield f"the ledger says {run_set.text!r}, and its runs give {text!r}"


def _those(run_ids: Sequence[int]) -> str:
    return numbered("run", run_ids) if run_ids else "no run"


# --- Scoring ---


class Scoring(Protocol):
    """Rules that score the runs of a group: the value of an entry point of ``mlbench.scoring``."""

    @property
    def official_runs(self) -> int:
        """Number of runs that an official result needs, for each number of workers."""

    def convergence(
        self, runs: Sequence[Result | None], facts: Mapping[str, str]
    ) -> Convergence | None:
        """Compare the epochs of runs with a reference; None without a reference."""

    def score(
        self, runs: Sequence[Result], facts: Mapping[str, str], sets: Sequence[RunSet]
    ) -> Score | None:
        """Score the runs of a group; None unless they belong to an official set."""


@cache
def scoring() -> Scoring | None:
    """Return the scoring that is installed; None without one."""
    return next(iter(load_all("mlbench.scoring").values()), None)


# --- Division ---

# Kernels round limits, so a limit in force may exceed the requested one by this factor.
_TOLERANCE = 1.01


def division(run: RunRow) -> Division:
    """Return the division: closed for an official task, open for a user's own command."""
    return "closed" if run.benchmark else "open"


def rule_violations(run: RunRow, machines: Sequence[Machine]) -> list[str]:
    """Return a sentence for each violation of the task's rules; the open division has no rules.

    While a run is active, settings that it has not reported yet are not a violation.
    """
    if not run.benchmark:
        return []
    violations = []
    broken = BENCHMARKS[run.benchmark].broken_rules(run.settings or {})
    if run.settings is not None:
        settings = {name: f"is {to_text(value)}" for name, value in run.settings.items()}
        for name, permitted in broken.items():
            # Earlier versions of tasks had no recipe, so their runs do not report one.
            if name in settings or name != "recipe":
                meaning = "the data is not the standard data: " if name == "data_sha256" else ""
                setting = f"{meaning}{name} {settings.get(name, 'is not stated')}"
                rule = " or ".join(map(to_text, permitted))
                violations.append(f"{setting}; the task's rules say {rule}")
    elif broken and run.state not in ACTIVE_STATES:
        violations.append("the run has not stated its settings")
    if any(machine.git and machine.git.dirty for machine in machines):
        violations.append("the code that ran has changes that are not committed")
    # A machine without a CPU limit may be bound to fewer cores, which only its rank knows.
    cores = [machine.cpu_limit for machine in machines if machine.cpu_limit is not None]
    bandwidths = [machine.bandwidth_limit for machine in machines]
    violations += _exceeding("the bandwidth of workers", run.max_bandwidth, bandwidths, "Mbit/s")
    for name in IMPAIRMENTS:
        unit, requested = options_of(RunRow)[name].unit_in_words, getattr(run, name) or 0.0
        in_force = {getattr(machine, name) or 0.0 for machine in machines}
        weaker = sorted(value for value in in_force if value * _TOLERANCE < requested)
        violations += [
            f"what workers sent was not {requested:g} {unit}, but {value:g}" for value in weaker
        ]
    violations += _exceeding("the time of workers", run.num_cpus, cores, "cores")
    if run.faults:
        violations.append(f"failures were ordered: {run.faults}")
    by_hand = sum(fault.seconds is None and fault.at is not None for fault in run.injected)
    if by_hand:
        violations.append(f"failures were injected by hand: {by_hand}")
    return violations


def _exceeding(
    subject: str, requested: float | None, in_force: Sequence[float | None], unit: str
) -> list[str]:
    """Return a sentence for each limit in force that is weaker than the requested one."""
    if requested is None:
        return []
    limit = requested * _TOLERANCE
    weaker = {value or 0.0 for value in in_force if value is None or value > limit}
    text = f"{subject} was not limited to {requested:g} {unit}"
    return [f"{text}, but to {value:g}" if value else text for value in sorted(weaker)]
