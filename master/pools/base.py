"""What every pool can do: the interface between the controller and where worker pods come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PodStatus:
    """A worker pod as its pool sees it. ``phase`` is Kubernetes' word: Pending, Running, Failed."""

    name: str
    number: int
    """From 0. The pool shrinks from the highest number down."""
    phase: str
    ip: str
    node: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Placement:
    """Where the ranks of an attempt meet, and which cores each of them may use."""

    master_addr: str
    master_port: int
    cpus: tuple[tuple[int, ...], ...]
    """By rank: the cores of its worker; empty where the pod itself is limited."""


class Pool(Protocol):
    """A source of worker pods. Every call is safe to repeat."""

    def pods(self) -> list[PodStatus]:
        """Return the worker pods that there are now, in the order of their numbers."""

    def scale(self, workers: int) -> None:
        """Ask for this many worker pods; they come and go in their own time."""

    def place(self, workers: Sequence[str], num_cpus: float | None) -> Placement:
        """Decide where these workers, by rank, meet, and what each may use."""
