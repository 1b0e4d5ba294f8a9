"""Benchmark sets: the registered plan, and the runs of each slot."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mlbench.contract.names import ACTIVE_STATES, RunState
from mlbench.contract.records.record import Record, Time

SetState = Literal["running", "stopping", "finished", "stopped"]
SlotState = Literal["planned", "running", "done", "failed", "stopped"]


@dataclass(frozen=True)
class PlannedFault(Record):
    """A fault in a run's fault schedule."""

    seconds: float
    """Seconds between the start of the last rank of the first attempt and the fault."""
    rank: int
    """Rank of the worker that the fault hits."""
    fault: str
    """The fault, such as ``kill`` or ``stop:5s``."""


@dataclass(frozen=True)
class Planned(Record):
    """A slot of a benchmark set as it is registered."""

    num_workers: int
    seed: int | None = None
    """Seed of the slot's first run; None without a seed. A replacement run gets a new seed."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """Values of the swept options, such as ``{"exchange": "flat", "bandwidth": "20"}``."""
    faults: tuple[PlannedFault, ...] = ()
    """Fault schedule of the slot's runs, which follows from the seed."""


@dataclass(frozen=True)
class Trial(Record):
    """A run of a benchmark set, which stays in the set's ledger even if the run is deleted."""

    slot: int
    """Number of the run's slot, from 1."""
    run_id: int
    seed: int | None
    """Seed of the run; None without a seed."""
    state: RunState
    reason: str
    """Reason why the run failed or was stopped; otherwise empty."""
    disturbed: bool
    """Whether a rank was disturbed, which may distort the run's result."""
    deleted: bool
    """Whether the run has been deleted."""
    counts: bool
    """Whether the run counts in the set's results."""
    remark: str
    """Reason why the run does not count, or a remark on how it counts; otherwise empty."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES and not self.deleted


@dataclass(frozen=True)
class Slot(Record):
    """A slot of a benchmark set: the planned run, and the runs that were made for it."""

    number: int
    """Number of the slot, from 1, in the planned order of the runs."""
    name: str
    """Name of the slot's runs."""
    num_workers: int
    seed: int | None
    """Seed of the slot's first run; None without a seed. A replacement run gets a new seed."""
    is_open: bool
    """Whether a run may be submitted for the slot."""
    trials: tuple[Trial, ...]
    """Runs of the slot, oldest first."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """Values of the swept options for the slot's runs, by option."""
    faults: tuple[PlannedFault, ...] = ()
    """Fault schedule of the slot's runs, which follows from the seed."""

    @property
    def active(self) -> Trial | None:
        """The active run of the slot; None without one."""
        return next((trial for trial in self.trials if trial.active), None)

    @property
    def finished(self) -> bool:
        """Whether a run of the slot has finished and is not deleted."""
        return any(trial.state == "FINISHED" and not trial.deleted for trial in self.trials)


@dataclass(frozen=True)
class RunSet(Record):
    """A benchmark set: the plan that was registered before its first run, and a ledger of runs."""

    name: str
    created_at: Time
    """Time at which the plan was registered."""
    official: bool
    """Whether the set follows MLPerf's rules: every run counts, and no run is replaced."""
    until_percent: float | None
    """Accuracy of the means, in percent, at which the repeats may end early.

    None if all slots are run.
    """
    order: Mapping[str, Any]
    """Settings that all runs of the set share."""
    slots: tuple[Slot, ...]
    """Slots of the set, in order."""
    text: str
    """Progress of the set so far, in a sentence."""
    state: SetState = "finished"
    """State of the set: ``running`` while the master submits its runs, ``stopping`` until the last
    run of a stopped set has ended."""
    reason: str = ""
    """Reason why the set waits, was stopped, or finished early; otherwise empty."""
    waiting: tuple[int, ...] = ()
    """Numbers of the slots whose runs the master will still submit, in order."""
    progress: Mapping[SlotState, int] = field(default_factory=dict)
    """Number of slots by their state."""

    @property
    def trials(self) -> list[Trial]:
        """Runs of all slots, in the order of the slots."""
        return [trial for slot in self.slots for trial in slot.trials]

    @property
    def is_active(self) -> bool:
        """Whether a run of the set is active or will still be submitted."""
        return self.state in ("running", "stopping")

    @property
    def plan_sha256(self) -> str:
        """SHA-256 of the registered plan. A noted value proves later that the plan is unchanged."""
        slots = [
            [slot.num_workers, slot.seed, dict(slot.swept), *map(asdict, slot.faults)]
            for slot in self.slots
        ]
        return _sha256([self.name, self.official, self.until_percent, dict(self.order), slots])

    @property
    def ledger_sha256(self) -> str:
        """SHA-256 of the plan, the time of its registration, and the outcome of every run."""
        trials = [asdict(trial) for trial in self.trials]
        for trial in trials:
            # Keep the former name of this field: another would change the digests of ledgers.
            trial["place"] = trial.pop("slot")
        return _sha256([self.plan_sha256, self.created_at, trials])

    @property
    def counted(self) -> list[int]:
        """Ids of the runs that count and are not deleted."""
        return [trial.run_id for trial in self.trials if trial.counts and not trial.deleted]


def _sha256(content: Sequence[Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
