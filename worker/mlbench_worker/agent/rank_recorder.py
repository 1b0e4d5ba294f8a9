"""The recording of a rank: the same for a worker of the pool and for an external job.

They differ in where the rank comes from: the master assigns it to an agent, which starts its
process, or a launcher starts its process, and a sidecar joins a run.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from mlbench.contract.extensions import load_all, registered
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, PollResponse, send_patiently
from mlbench_worker.agent.rank_network import address_towards
from mlbench_worker.agent.shipper import Shipper

log = logging.getLogger(__name__)

Gather = Callable[[Attempt, PollResponse], bytes]
"""Gathers what a reply requests of a rank, as an entry point of ``mlbench.evidence``.

The name of the entry point is the kind of evidence: ``diagnoses`` or ``profiles``.
"""


class Injector(Protocol):
    """Injects faults into a rank.

    An entry point of ``mlbench.injectors`` starts it with the rank's attempt, its pod, a function
    that returns connections, and one that returns the lead of this machine's clock.
    """

    def follow(self, due: Sequence[Mapping[str, Any]], /) -> None:
        """Schedule the new faults of a reply."""


class EvidenceRequests:
    """Has extensions gather the evidence that the master requests of a rank, and sends it."""

    def __init__(self, connect: Callable[[], MasterClient]) -> None:
        self._connect = connect
        self._last: dict[str, int] = {}

    def follow(self, reply: PollResponse, pod: str, attempt: Attempt) -> None:
        """Start a thread for each request in a reply that is new."""
        profile = reply.profile and reply.profile[0]
        for kind, number in {"diagnoses": reply.diagnosis, "profiles": profile}.items():
            if number is not None and self._last.get(kind) != number:
                self._last[kind] = number
                path = f"/api/workers/{quote(pod)}/{kind}/{number}"

                def send(kind: str = kind, path: str = path) -> None:
                    try:
                        # Imported on request: most agents never need it.
                        gather: Gather = registered("mlbench.evidence")[kind].load()
                        send_patiently(self._connect, path, gather(attempt, reply))
                    except Exception:
                        # The rank can train even if it cannot be examined.
                        log.exception("%s cannot be done", path)

                threading.Thread(target=send, name=kind, daemon=True).start()


class RankRecorder:
    """Ships the streams of a rank, reports the rank, and follows the master's replies."""

    def __init__(
        self,
        attempt: Attempt,
        pod: str,
        link: MasterClient,
        connect: Callable[[], MasterClient],
    ) -> None:
        """Start to ship.

        Args:
            attempt: the files and the process of the rank.
            pod: the name with which the rank polls.
            link: the connection for polls.
            connect: returns further connections.
        """
        self.attempt = attempt
        self._pod = pod
        self._link = link
        self._evidence = EvidenceRequests(connect)
        self._injectors: list[Injector] = [
            start(attempt, pod, connect, lambda: link.clock.offset)
            for start in load_all("mlbench.injectors").values()
        ]
        self.shipper = Shipper(attempt, connect())
        self.shipper.start()
        self.has_reported_exit = False
        """Whether the master knows the exit of the rank."""

    @property
    def has_ended(self) -> bool:
        """Whether the master knows the exit, and has everything or refuses the rest."""
        return self.has_reported_exit and not self.shipper.is_alive()

    @property
    def missing_bytes(self) -> int:
        """Number of bytes that the master does not have."""
        return sum(self.attempt.sizes().values()) - self.shipper.held

    def poll(self, worker: Mapping[str, object]) -> PollResponse:
        """Report the rank with the fields of its ``worker``, and do what the reply requests.

        Raises:
            MasterClientError, RequestRefusedError: the master did not accept the report.
        """
        attempt = self.attempt
        is_exited = attempt.ended.is_set()
        report = {"ip": address_towards(), **worker, **attempt.report()}
        reply = self._link.poll(self._pod, report)
        self.has_reported_exit = is_exited
        if reply.do == "stop" and attempt.exit is None:
            attempt.stop()
        self._evidence.follow(reply, self._pod, attempt)
        for injector in self._injectors:
            injector.follow(reply.faults)
        return reply
