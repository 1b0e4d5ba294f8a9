"""Runs and ranks as they are evaluated: rows of the master's database, or of an archive.

They have what results depend on, and pass over the rest. Times are Unix seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlbench.contract.masking import mask_command
from mlbench.contract.names import RunState
from mlbench.contract.records import Disturbance, Goal, Record, StatedMachine
from mlbench.contract.runspec import RunSpec
from mlbench.contract.stated import Setting


@dataclass(frozen=True)
class Elsewhere(Record):
    """The installation that an imported run is from."""

    installation: str = ""
    """Its name; empty where the run's archive does not say."""


@dataclass(frozen=True)
class InjectedFault(Record):
    """A failure that a run is to have, or has had."""

    rank: int
    """The worker that it hits, by its rank among the workers."""
    fault: str
    """Such as ``kill`` or ``stop:5s``."""
    seconds: float | None = None
    """When it was planned for, after all ranks of the first attempt were running; None: it was
    ordered by hand."""
    due_at: float | None = None
    """The same in Unix seconds; None before all ranks are running."""
    at: float | None = None
    """When its agent has carried it out, or could not; None: it has not."""
    attempt: int | None = None
    """That of ``at``."""
    problem: str = ""
    """Why it could not; else empty."""

    @property
    def how(self) -> str:
        """Who wanted it, in words."""
        return "by hand" if self.seconds is None else f"as planned at {self.seconds:.1f} s"


@dataclass(frozen=True, kw_only=True)
class RunRow(RunSpec, Record):
    """A run: what it was ordered with, and what became of it."""

    id: int
    name: str
    display_name: str = ""
    benchmark: str = ""
    image: str = ""
    command: str = ""
    backend: str = "gloo"
    run_all_nodes: bool = True
    swept: Mapping[str, str] = field(default_factory=dict)
    state: RunState
    reason: str = ""
    """Why it failed or was ended; empty for a run that ended by itself."""
    not_finite: Mapping[str, Any] | None = None
    """``{"metric", "rank", "step", "since"}`` of a loss that is not finite; None otherwise."""
    attempt: int = 0
    created_at: float = 0.0
    room_at: float | None = None
    """When it no longer waited for other runs, if workers were not there then."""
    started_at: float | None = None
    finished_at: float | None = None
    clock_set_seconds: float = 0.0
    goal: Goal | None = None
    settings: Mapping[str, Setting] | None = None
    """As the task stated them; None until it has."""
    stated_world_size: int | None = None
    energy_joules: float | None = None
    origin: Elsewhere | None = None
    injected: tuple[InjectedFault, ...] = ()
    """The failures that were planned, or ordered by hand."""

    @property
    def world_size(self) -> int:
        """How many processes train, a rank each."""
        return self.stated_world_size or self.num_workers

    @property
    def title(self) -> str:
        """The name for people."""
        return self.display_name or self.name

    @property
    def whole_command(self) -> str:
        """The command with the options that MLBench adds to it, and with its secrets masked.

        It is empty for an official task.
        """
        options = {"--gpu": self.gpu_enabled, "--light": self.light_target}
        added = [option for option, wanted in options.items() if wanted]
        return " ".join([mask_command(self.command), *added]) if self.command else ""


@dataclass(frozen=True)
class Processes(Record):
    """The processes of a worker that has several."""

    ranks: tuple[int, ...]
    restarts: Mapping[str, float] = field(default_factory=dict)
    """When torchrun began them anew."""


@dataclass(frozen=True, kw_only=True)
class RankRow(Record):
    """A worker's part in an attempt."""

    attempt: int
    rank: int
    worker: str = ""
    assigned_at: float = 0.0
    reported_at: float | None = None
    """When its agent said first that its process runs; its beginning, if others started it."""
    exit_code: int | None = None
    exited_at: float | None = None
    lost: str = ""
    """Why it was given up; empty for a rank that was not."""
    clock_ahead: float = 0.0
    """By how much the worker's clock was ahead of the run's time."""
    dated_before: float = 0.0
    dated_ahead: float = 0.0
    """By how much values were dated before their beginning, and after they came, at most."""
    disturbance: Disturbance | None = None
    processes: Processes | None = None
    machine: StatedMachine | None = None
    assignment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of its processes: its own, unless it has stated several."""
        return self.processes.ranks if self.processes else (self.rank,)

    @property
    def cores(self) -> tuple[int, ...]:
        """The cores of its machine that it was bound to; empty if it was to none."""
        return tuple(self.assignment.get("cpus", ()))
