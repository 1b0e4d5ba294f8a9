"""Sets of runs: what was registered, and the ledger of each place."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mlbench.contract.names import ACTIVE_STATES, RunState
from mlbench.contract.records.base import Record, Time


@dataclass(frozen=True)
class PlannedFault(Record):
    """A failure of a run's schedule."""

    seconds: float
    """When, after all ranks of the first attempt were running."""
    rank: int
    """The worker that it hits, by its rank among the workers."""
    fault: str
    """Such as `kill` or `stop:5s`."""


@dataclass(frozen=True)
class Planned(Record):
    """A place as it is registered."""

    num_workers: int
    seed: int | None = None
    """Of its first run; one that is run in its stead has a seed that the set has not used."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what the set sweeps: ``{"exchange": "flat", "bandwidth": "20"}``."""
    faults: tuple[PlannedFault, ...] = ()
    """The failures that its runs have, drawn from its seed."""


@dataclass(frozen=True)
class Trial(Record):
    """A run that was ordered for a place of a set, and stays in the set's ledger."""

    place: int
    run_id: int
    seed: int | None
    state: RunState
    reason: str
    """Why it failed, or was stopped; else empty."""
    disturbed: bool
    deleted: bool
    """The run was: of what it did, this is left."""
    counts: bool
    remark: str
    """Why it does not count, or as what; else empty."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES and not self.deleted


@dataclass(frozen=True)
class SetPlace(Record):
    """A place of a set: what was to be run there, and what was."""

    number: int
    """From 1 on, in the order in which the places are to be run."""
    name: str
    """Of its runs."""
    num_workers: int
    seed: int | None
    """Of its first run; one that is run in its stead has a seed that the set has not used."""
    is_open: bool
    """Whether a run may be ordered for it."""
    trials: tuple[Trial, ...]
    """The oldest first."""
    swept: Mapping[str, str] = field(default_factory=dict)
    """The values of what the set sweeps, for its runs."""
    faults: tuple[PlannedFault, ...] = ()
    """The failures that its runs have, drawn from its seed."""

    @property
    def active(self) -> Trial | None:
        """The run that goes on there, if one does."""
        return next((trial for trial in self.trials if trial.active), None)

    @property
    def finished(self) -> bool:
        """Whether a run has finished there."""
        return any(trial.state == "FINISHED" and not trial.deleted for trial in self.trials)


@dataclass(frozen=True)
class RunSet(Record):
    """A benchmark set: what was to be run, as registered before its first run, and its ledger."""

    name: str
    created_at: Time
    official: bool
    """Whether it follows MLPerf's rules: every run counts, and none is run in another's stead."""
    until_percent: float | None
    """Repeats may end once every mean is known to within so much; None: all places are run."""
    order: Mapping[str, Any]
    """What all of its runs are ordered with."""
    places: tuple[SetPlace, ...]
    text: str
    """What became of it so far, in words."""

    @property
    def plan_sha256(self) -> str:
        """The SHA-256 of what was registered: whoever has it can tell that it was not changed."""
        places = [
            [place.num_workers, place.seed, dict(place.swept), *map(asdict, place.faults)]
            for place in self.places
        ]
        return _sha256([self.name, self.official, self.until_percent, dict(self.order), places])

    @property
    def ledger_sha256(self) -> str:
        """The SHA-256 of the plan, of when it was registered, and of what became of each run."""
        trials = [asdict(trial) for place in self.places for trial in place.trials]
        return _sha256([self.plan_sha256, self.created_at, trials])

    @property
    def counted(self) -> list[int]:
        """The runs that count and are there."""
        trials = [trial for place in self.places for trial in place.trials]
        return [trial.run_id for trial in trials if trial.counts and not trial.deleted]


def _sha256(content: Sequence[Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
