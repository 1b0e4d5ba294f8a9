"""Interface between the controller and a pool, which is a source of worker pods."""

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
    """A worker pod, as its pool reports it."""

    name: str
    number: int
    """Index in the pool, from 0. The pool shrinks from the highest index down."""
    phase: str
    """Phase as in Kubernetes, or Terminating while it is being removed."""
    ip: str
    """Address; empty until it has one."""
    node: str
    labels: dict[str, str]
    port: int = 0
    """UDP port that wakes its agent; 0 if unknown."""
    uid: str = ""
    """Unique id, because a later pod can have the same name; empty in pools without uids."""
    image: str = ""
    """Image with its digest; empty in pools without images."""
    usable: bool = True
    """Whether it can be given a rank: it has the requested shape, and will not be removed."""
    trouble: str = ""
    """Why it does not run, or why it last exited; empty if nothing is known."""
    troubled_at: float = math.inf
    """When it last exited, in Unix seconds; infinite if it does not run at present."""


@dataclass(frozen=True)
class Placement:
    """Rendezvous of the ranks of an attempt, and the pod of each."""

    master_addr: str
    master_port: int
    pods: tuple[PodStatus, ...]
    """Pod of each worker, by rank."""
    attachments: tuple[Attachment, ...] = ()
    """Attachment to a separate network, by rank; empty if ranks use the network of the pods."""
    python: str = "python3"
    """Interpreter on the workers that has the official benchmarks."""

    @property
    def hosts(self) -> list[str]:
        """Address of each rank, for the other ranks."""
        return [attachment.address for attachment in self.attachments] or [
            pod.ip for pod in self.pods
        ]


def wake(pods: Iterable[PodStatus]) -> None:
    """Have the agents of these pods poll now. An unreachable agent polls at its next interval."""
    for pod in pods:
        family = socket.AF_INET6 if ":" in pod.ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.sendto(b"", (pod.ip, pod.port))


class Pool(Protocol):
    """A source of worker pods. Every call returns at once, and can be repeated."""

    def pods(self) -> list[PodStatus] | None:
        """Return the worker pods in the order of their numbers; None while they are unknown."""

    def cores(self) -> tuple[int, ...] | None:
        """Return the cores that workers share; None if each worker has its own."""

    def scale(self, workers: int, worker: WorkerSpec, busy: AbstractSet[str]) -> None:
        """Request a number of worker pods of a shape, without waiting for them.

        ``busy``: uids of the pods that runs use. They stay as they are.
        """

    def place(self, pods: tuple[PodStatus, ...], worker: WorkerSpec) -> Placement:
        """Choose the rendezvous of the workers in these pods, which are in order of rank."""

    def explain(self) -> str:
        """Return why requested pods are missing; empty if nothing is known."""


def is_same_pod(pod_uid: str | None, agent_uid: str) -> bool:
    """Return whether an agent, which reports ``agent_uid``, can run in a pod.

    True for local workers, which have no uid, and for older runs, whose uid is unknown.
    """
    return not pod_uid or pod_uid == agent_uid
