"""What travels between client and master, as frozen dataclasses.

A master may say more than a record here knows of: that is passed over, or found in ``fields``.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mlbench.names import ACTIVE_STATES, RunState
from mlbench.run_settings import Setting


@dataclass(frozen=True)
class Goal:
    """What a run wants to reach."""

    metric: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Delivery:
    """Where a run's samples are, counted at its end."""

    recorded: int
    in_prometheus: int
    kept: int


@dataclass(frozen=True)
class Rank:
    """A rank of a run's latest attempt, and the pod that it is on."""

    rank: int
    pod: str
    exit_code: int | None


@dataclass(frozen=True)
class Run:
    """A run. Times are UTC texts, such as ``2018-08-03T09:21:29.347000Z``."""

    id: int
    name: str
    state: RunState
    reason: str
    num_workers: int
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    goal: Goal | None
    delivery: Delivery | None
    ranks: tuple[Rank, ...]
    benchmark: str = ""
    """The official benchmark; empty where the run has an image of its own."""
    args: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    """The run's own image; empty where it has none."""
    command: str = ""
    """What the run's own image runs."""
    working_dir: str | None = None
    """The folder that the command starts in; None: the worker's own."""
    backend: str = ""
    """How the ranks talk to each other; empty: as the benchmark likes it."""
    num_cpus: float | None = None
    """Cores of each worker; None: no limit."""
    max_bandwidth: float | None = None
    """Between workers, in Mbit/s; None: no limit."""
    run_all_nodes: bool | None = None
    gpu_enabled: bool | None = None
    light_target: bool | None = None
    seed: int | None = None
    deadline_seconds: float | None = None
    """After its start, when training shall end; None: never."""
    goal_reached_at: str | None = None
    """When a recorded value reached the goal first."""
    goal_train_seconds: float | None = None
    """Training time until then; None where it was not recorded."""
    waiting: str | None = None
    """What the run waits for, in words; nothing while it goes on."""
    settings: Mapping[str, Setting] | None = None
    """What the task runs with, as it says itself; None until it does."""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @property
    def active(self) -> bool:
        """Whether the run has not ended."""
        return self.state in ACTIVE_STATES

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Run":
        """Return the run that the API describes."""
        goal, delivery = fields["goal"], fields["delivery"]
        parts = {
            "goal": _to_goal(goal),
            "delivery": Delivery(**known(Delivery, delivery)) if delivery else None,
            "ranks": tuple(Rank(**known(Rank, rank)) for rank in fields["ranks"]),
            "fields": fields,
        }
        return cls(**{**known(cls, fields), **parts})


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to a run."""

    time: str
    kind: str
    """created, ready, restarted, started, goal, exited, lost, finished, failed or stopped."""
    attempt: int
    """0 before the first one."""
    rank: int | None
    """The rank that it happened to; None for the run as a whole."""
    text: str
    """What happened, in a sentence."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "RunEvent":
        """Return the event that the API describes."""
        return cls(**known(cls, fields))


@dataclass(frozen=True)
class Pod:
    """A worker pod, and the run and rank that it has, if any."""

    name: str
    labels: str
    phase: str
    ip: str | None
    node: str | None = None
    run_id: int | None = None
    rank: int | None = None
    state: str | None = None
    """What its agent said last that it does: idle, running, exited; None if it never said."""
    seen_at: str | None = None
    """When its agent was last heard of."""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Pod":
        """Return the pod that the API describes."""
        return cls(**{**known(cls, fields), "fields": fields})


@dataclass(frozen=True)
class Benchmark:
    """An official benchmark."""

    name: str
    description: str
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""
    goal: Goal | None = None
    """What it trains for if nothing else is said; None for a task without a goal."""
    light_goal: Goal | None = None
    """What it trains for with ``light_target``; None where that has no meaning."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Benchmark":
        """Return the benchmark that the API describes."""
        goals = {name: _to_goal(fields.get(name)) for name in ("goal", "light_goal")}
        return cls(**{**known(cls, fields), **goals, "fields": fields})


@dataclass(frozen=True)
class RunLimits:
    """What a run may ask for."""

    workers: int
    cpus: float
    """The most cores of a worker."""
    whole_cpus: bool
    """Whether a worker gets whole cores only."""
    can_limit_bandwidth: bool
    bandwidth: float | None
    """The most Mbit/s of a worker; None: any number, where it can be limited."""
    gpus: int
    """GPUs of a worker of a run that asks for them."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "RunLimits":
        """Return the limits that the API describes."""
        bandwidth = fields["bandwidth"]
        parts = {
            "can_limit_bandwidth": bandwidth is not None,
            "bandwidth": bandwidth["most"] if bandwidth else None,
        }
        return cls(**{**known(cls, fields), **parts})


@dataclass(frozen=True)
class Info:
    """An installation of MLBench."""

    version: str
    pool: Literal["local", "kubernetes"]
    """Where its workers are."""
    workers: int
    """How many idle ones are kept."""
    limits: RunLimits
    grafana_url: str | None
    """As a browser reaches it; None where there is none."""
    prometheus_url: str | None
    """Of a local stack; None elsewhere."""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the API says, as it says it."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Info":
        """Return the installation that the API describes."""
        grafana, prometheus = fields["grafana"], fields["prometheus"]
        parts = {
            "limits": RunLimits.from_fields(fields["limits"]),
            "grafana_url": grafana["url"] if grafana else None,
            "prometheus_url": prometheus["url"] if prometheus else None,
            "fields": fields,
        }
        return cls(**{**known(cls, fields), **parts})


def _to_goal(fields: Mapping[str, Any] | None) -> Goal | None:
    return Goal(**known(Goal, fields)) if fields else None


def known(record: type[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the fields that a record has."""
    names = (part.name for part in dataclasses.fields(record))
    return {name: fields[name] for name in names if name in fields}
