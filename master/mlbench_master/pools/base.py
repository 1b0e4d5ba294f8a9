"""The interface between the controller and a pool, which is where worker pods come from."""

import math
import socket
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from mlbench.contract.assignment import Attachment
from mlbench.contract.runspec import WorkerSpec

RUNNING = "Running"
TERMINATING = "Terminating"


@dataclass(frozen=True)
class PodStatus:
    """A worker pod as its pool sees it."""

    name: str
    number: int
    """From 0. The pool shrinks from the highest number down."""
    phase: str
    """Kubernetes' word, or Terminating once it is being ended."""
    ip: str
    """Empty before it has one."""
    node: str
    labels: dict[str, str]
    port: int = 0
    """Where its agent is woken, by a datagram; 0 if that is not known."""
    uid: str = ""
    """Tells it from a later pod of the same name; empty where names are not used again."""
    image: str = ""
    """The image that it runs, with its digest; empty where it runs none."""
    usable: bool = True
    """Whether it may be given a rank: it is as ``scale`` asked last, and stays."""
    trouble: str = ""
    """Why it does not run, or ended when it last did; empty if nothing is known."""
    troubled_at: float = math.inf
    """When that was, in Unix seconds; infinite if it is so now."""


@dataclass(frozen=True)
class Placement:
    """Where the ranks of an attempt meet, and what each of them gets."""

    master_addr: str
    master_port: int
    pods: tuple[PodStatus, ...]
    """By rank: the pod of its worker."""
    attachments: tuple[Attachment, ...] = ()
    """By rank: its place in a network of their own; empty where the pods' is theirs."""
    python: str = "python3"
    """The interpreter on the workers that has the official tasks."""

    @property
    def hosts(self) -> list[str]:
        """By rank: the address by which the others reach it."""
        return [attachment.address for attachment in self.attachments] or [
            pod.ip for pod in self.pods
        ]


def wake(pods: Iterable[PodStatus]) -> None:
    """Have the agents of these pods poll now; one that is not reached does so soon by itself."""
    for pod in pods:
        family = socket.AF_INET6 if ":" in pod.ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.sendto(b"", (pod.ip, pod.port))


class Pool(Protocol):
    """A source of worker pods. Every call returns at once, and may be repeated."""

    def pods(self) -> list[PodStatus] | None:
        """Return the worker pods in the order of their numbers; None while they are not known."""

    def cores(self) -> tuple[int, ...] | None:
        """Return the cores that workers share; None where each has its own, as its shape says."""

    def scale(self, workers: int, worker: WorkerSpec, busy: AbstractSet[str]) -> None:
        """Ask for this many worker pods of a shape; they come and go in their own time.

        ``busy`` has the uids of the pods of runs, which stay as they are.
        """

    def place(self, pods: tuple[PodStatus, ...], worker: WorkerSpec) -> Placement:
        """Decide where the workers in these pods, in order of rank, meet."""

    def explain(self) -> str:
        """Explain why pods that were asked for are not there; empty if nothing is known."""


def is_same_pod(pod_uid: str | None, agent_uid: str) -> bool:
    """Compare the uid of a pod with the one that an agent says its own pod has.

    Workers of one machine have none, and of older runs it is not known: it may be.
    """
    return not pod_uid or pod_uid == agent_uid
