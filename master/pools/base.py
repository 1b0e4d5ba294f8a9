"""What every pool can do: the interface between the controller and where worker pods come from."""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

RUNNING = "Running"
TERMINATING = "Terminating"


@dataclass(frozen=True)
class Shape:
    """What a run asks of each of its worker pods. The default one is the pool's usual shape."""

    num_cpus: float | None = None
    """Cores of a worker; None: as many as the pool usually gives."""
    max_bandwidth: float | None = None
    """Mbit/s that a worker may send; None: what the pool usually lets it."""
    gpu_enabled: bool = False
    image: str = ""
    """The image that the run's command is in; empty: the pool's own."""


@dataclass(frozen=True)
class PodStatus:
    """A worker pod as its pool sees it."""

    name: str
    number: int
    """From 0. The pool shrinks from the highest number down."""
    phase: str
    """As Kubernetes says it: Pending, Running, Failed; Terminating for one that is being ended."""
    ip: str
    """Empty before it has one."""
    node: str
    labels: dict[str, str]
    uid: str = ""
    """What tells it from a later one of the same name; empty where names are not used again."""
    image: str = ""
    """The image that it runs, with its digest; empty where it runs none."""
    usable: bool = True
    """Whether it is as ``scale`` last asked for, and stays: others are given no rank."""
    trouble: str = ""
    """Why it does not run, or ended when it last did; empty if nothing is known."""
    troubled_at: float = math.inf
    """When that was, in Unix seconds; infinite where it still is."""


@dataclass(frozen=True)
class Placement:
    """Where the ranks of an attempt meet, and what each of them gets."""

    master_addr: str
    master_port: int
    cpus: tuple[tuple[int, ...], ...]
    """By rank: the cores of its worker; empty where the pod itself is limited."""
    pods: tuple[PodStatus, ...]
    """By rank: the pod of its worker."""
    python: str = "python3"
    """The Python that has the official tasks, as the workers find it."""


class Pool(Protocol):
    """A source of worker pods. Every call is safe to repeat, and returns at once."""

    def pods(self) -> list[PodStatus] | None:
        """Return the worker pods in the order of their numbers; None while they are not known."""

    def scale(self, workers: int, shape: Shape, busy: AbstractSet[str]) -> None:
        """Ask for this many worker pods of a shape; they come and go in their own time.

        Args:
            workers: how many there should be.
            shape: what they should be like.
            busy: the uids of the pods of the run that goes on, which stay as they are.
        """

    def place(self, workers: Sequence[str], num_cpus: float | None) -> Placement | None:
        """Decide where these workers, by rank, meet, and what each may use.

        Returns:
            None if one of them is not there any more, or is about to go.
        """

    def explain(self) -> str:
        """Return in words why pods that were asked for are not there; empty if nothing is known."""
