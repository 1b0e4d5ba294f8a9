"""Evidence that the master requests of a rank: extensions gather it, each once, in a thread."""

import logging
import threading
from collections.abc import Callable
from urllib.parse import quote

from mlbench.contract.extensions import registered
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, PollResponse, send_patiently

log = logging.getLogger(__name__)

Gather = Callable[[Attempt, PollResponse], bytes]
"""Gathers what a reply requests of a rank, as an entry point of ``mlbench.evidence``.

The name of the entry point is the kind of evidence: ``diagnoses`` or ``profiles``.
"""


class EvidenceRequests:
    """Examines a rank when the master requests it, and sends the evidence."""

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
