"""Faults that are injected into a run: their notation and their schedule. Pure functions.

``kill:every=15s`` kills a worker of the run every 15 s on average. The times between two faults
are exponentially distributed, like those of independent failures, and every worker is equally
likely to be hit. ``kill:every=15s+stop:2s:every=1m`` combines two kinds.
"""

import math
import re
from dataclasses import dataclass
from random import Random
from typing import Literal, cast, get_args

from mlbench.contract.extensions import registered
from mlbench.contract.records import PlannedFault

Kind = Literal["kill", "stop", "slow", "network", "disk-full", "oom"]

MAX_FAULTS = 100
"""Maximum number of faults in a schedule: the maximum number of restarts of a run."""
_NOTATION = "one of kill, stop:5s, slow:50%, slow:50%:10s and network:3s"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)"
_FAULT = re.compile(rf"([a-z-]+)(?::([0-9]+(?:\.[0-9]+)?)%)?(?::{_TIME})?")
_EVERY = re.compile(rf"(.+):every={_TIME}")
# Whether a kind has a percentage, and whether it has a duration; None: the duration is optional.
_PARAMETERS: dict[Kind, tuple[bool, bool | None]] = {
    **dict.fromkeys(get_args(Kind), (False, False)),
    "stop": (False, True),
    "slow": (True, None),
    "network": (False, True),
}


class FaultError(ValueError):
    """A fault or a schedule is not in the right notation. The message shows the notation."""


@dataclass(frozen=True)
class Fault:
    """A fault: its effect on a worker's processes."""

    kind: Kind
    seconds: float | None = None
    """Duration in seconds; None without one, or if the fault lasts until the attempt ends."""
    percent: float | None = None
    """CPU time that a slow worker still gets, in percent; None for other kinds."""

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Return the fault that a text such as ``stop:5s`` describes, or raise a FaultError."""
        match = _FAULT.fullmatch(text)
        kind = cast("Kind", match[1]) if match else None
        if match is None or kind not in _PARAMETERS:
            raise FaultError(_NOTATION)
        seconds = float(match[3]) * _UNITS[match[4]] if match[3] else None
        percent = float(match[2]) if match[2] else None
        has_percent, has_duration = _PARAMETERS[kind]
        if has_percent != (percent is not None) or has_duration not in (seconds is not None, None):
            raise FaultError(_NOTATION)
        if percent is not None and not 0 < percent < 100:
            raise FaultError(f"percentage must be more than 0 and less than 100 (got {percent:g})")
        if seconds is not None and not 0 < seconds <= 3600:
            raise FaultError(f"duration must be more than 0 s and at most 1 h (got {seconds:g} s)")
        return cls(kind, seconds, percent)


@dataclass(frozen=True)
class Recurring:
    """A fault that recurs throughout a run."""

    text: str
    """The fault, such as ``stop:5s``."""
    every_seconds: float
    """Mean time between two faults, in seconds."""

    @property
    def kind(self) -> Kind:
        """Kind of the fault."""
        return Fault.parse(self.text).kind


def parse(text: str) -> tuple[Recurring, ...]:
    """Return the recurring faults that ``--faults`` describes, or raise a FaultError."""
    parts = text.split("+")
    if len(parts) > 6:
        raise FaultError(f"at most 6 recurring faults (got {len(parts)})")
    faults = []
    for part in parts:
        match = _EVERY.fullmatch(part)
        if match is None:
            raise FaultError("must be FAULT:every=TIME, e.g. kill:every=15s+stop:2s:every=1m")
        every_seconds = float(match[2]) * _UNITS[match[3]]
        if every_seconds < 1:
            raise FaultError(f"interval must be at least 1 s (got {every_seconds:g} s)")
        Fault.parse(match[1])
        faults.append(Recurring(match[1], every_seconds))
    return tuple(faults)


def fault_schedule(text: str, seed: int, workers: int) -> tuple[PlannedFault, ...]:
    """Return the fault schedule for a seed: at most ``MAX_FAULTS`` faults, in order of time.

    Runs with other numbers of workers get the same times, and other mean intervals scale the
    times. Runs that are compared therefore differ in nothing else.
    """
    schedule = []
    for position, recurring in enumerate(parse(text)):
        random = Random(f"{seed} {position}")  # noqa: S311 - no secret
        seconds = 0.0
        for _ in range(MAX_FAULTS):
            seconds -= recurring.every_seconds * math.log(1 - random.random())
            rank = int(random.random() * workers)
            schedule.append(PlannedFault(round(seconds, 3), rank, recurring.text))
    return tuple(sorted(schedule, key=lambda fault: fault.seconds)[:MAX_FAULTS])


def why_refused(kind: Kind, *, in_cluster: bool, has_network: bool) -> str:
    """Return why a kind of fault is impossible or would affect others; empty if it is allowed.

    ``has_network`` is true if each worker on this machine has its own network.
    """
    if not registered("mlbench.injectors"):
        return f"{kind}: no extension that injects faults is installed"
    match kind:
        case "oom":
            return (
                "oom: at its memory limit, a pod's agent would be killed too"
                if in_cluster
                else "oom: workers here have no memory of their own, so others would be killed too"
            )
        case "disk-full":
            return "disk-full: workers share their disk, so others would find it full too"
        case "network" if in_cluster:
            return "network: a pod has no right to cut its own network"
        case "network" if not has_network:
            return (
                "network: the workers share this machine's; with --bandwidth, --latency or --loss "
                "each has a private network, which can be cut"
            )
    return ""
