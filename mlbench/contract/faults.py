"""Failures that are injected into a run: how they are written, and their schedule. Pure.

``kill:every=15s`` is a kill every 15 s in the mean, of the run as a whole: the times between two of
them are exponentially distributed, as those of independent failures are, and each hits any worker
as likely as another. ``kill:every=15s+stop:2s:every=1m`` has two kinds.
"""

import math
import re
from dataclasses import dataclass
from random import Random
from typing import Literal, cast, get_args

from mlbench.contract.records import PlannedFault

Kind = Literal["kill", "stop", "slow", "network", "disk-full", "oom"]

MOST = 100
"""Of a schedule: no run begins more often anew."""
_RIGHT = "one of kill, stop:5s, slow:50%, slow:50%:10s and network:3s"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)"
_FAULT = re.compile(rf"([a-z-]+)(?::([0-9]+(?:\.[0-9]+)?)%)?(?::{_TIME})?")
_EVERY = re.compile(rf"(.+):every={_TIME}")
# Whether a kind says a share, and a time; None: it may.
_SAYS: dict[Kind, tuple[bool, bool | None]] = {
    **dict.fromkeys(get_args(Kind), (False, False)),
    "stop": (False, True),
    "slow": (True, None),
    "network": (False, True),
}
_LONGEST_SECONDS = 3600.0
_MOST_KINDS = 6
_LEAST_EVERY_SECONDS = 1.0


class FaultError(ValueError):
    """A text describes no failure; it says what would be right."""


@dataclass(frozen=True)
class Fault:
    """A failure: what happens to a worker's processes."""

    kind: Kind
    seconds: float | None = None
    """How long it lasts; None: once and for all, or until the attempt ends."""
    percent: float | None = None
    """Of its time, what a slow worker still gets."""

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Return the failure that a text such as ``stop:5s`` describes, or raise a FaultError."""
        match = _FAULT.fullmatch(text)
        kind = cast("Kind", match[1]) if match else None
        if match is None or kind not in _SAYS:
            raise FaultError(_RIGHT)
        seconds = float(match[3]) * _UNITS[match[4]] if match[3] else None
        percent = float(match[2]) if match[2] else None
        says_share, says_time = _SAYS[kind]
        if says_share != (percent is not None) or says_time not in (seconds is not None, None):
            raise FaultError(_RIGHT)
        if percent is not None and not 0 < percent < 100:
            raise FaultError("a share is more than 0 % and less than 100 %")
        if seconds is not None and not 0 < seconds <= _LONGEST_SECONDS:
            raise FaultError("it lasts more than 0 s, and at most an hour")
        return cls(kind, seconds, percent)


@dataclass(frozen=True)
class Recurring:
    """A failure that comes again and again."""

    text: str
    """Of the failure itself."""
    every_seconds: float
    """The mean time between two of them."""

    @property
    def kind(self) -> Kind:
        """Of the failure itself."""
        return Fault.parse(self.text).kind


def parse(text: str) -> tuple[Recurring, ...]:
    """Return the failures that ``--faults`` describes, or raise a FaultError."""
    parts = text.split("+")
    if len(parts) > _MOST_KINDS:
        raise FaultError(f"at most {_MOST_KINDS} failures")
    return tuple(map(_recurring, parts))


def _recurring(text: str) -> Recurring:
    match = _EVERY.fullmatch(text)
    if match is None:
        raise FaultError("say what comes how often, e.g. kill:every=15s+stop:2s:every=1m")
    every = float(match[2]) * _UNITS[match[3]]
    if every < _LEAST_EVERY_SECONDS:
        raise FaultError(f"at least {_LEAST_EVERY_SECONDS:g} s apart, in the mean")
    Fault.parse(match[1])
    return Recurring(match[1], every)


def draw(text: str, seed: int, workers: int) -> tuple[PlannedFault, ...]:
    """Return the schedule of a seed, at most ``MOST`` failures, in order of time.

    With another number of workers the times are the same; with another mean time they are as much
    longer. So what is compared differs in nothing else.
    """
    drawn = []
    for place, recurring in enumerate(parse(text)):
        random = Random(f"{seed} {place}")  # noqa: S311 - no secret
        at = 0.0
        for _ in range(MOST):
            at -= recurring.every_seconds * math.log(1 - random.random())
            drawn.append(PlannedFault(round(at, 3), int(random.random() * workers), recurring.text))
    return tuple(sorted(drawn, key=lambda fault: fault.seconds)[:MOST])


def why_refused(kind: Kind, *, in_cluster: bool, has_network: bool) -> str:
    """Return why a failure cannot be had, or would hurt others; empty if nothing speaks against it.

    ``has_network`` tells if each worker has a network of its own on this machine.
    """
    match kind:
        case "oom" if in_cluster:
            return "oom: at its memory limit, a pod's agent would be killed too"
        case "oom":
            return "oom: workers here have no memory of their own, so others would be killed too"
        case "disk-full":
            return "disk-full: workers share their disk, so others would find it full too"
        case "network" if in_cluster:
            return "network: a pod has no right to cut its own network"
        case "network" if not has_network:
            return (
                "network: the workers share this machine's; with --bandwidth, --latency or --loss "
                "each has one of its own, which can be cut"
            )
    return ""
