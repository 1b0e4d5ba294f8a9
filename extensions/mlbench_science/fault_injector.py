"""Fault injection: carry out the master's faults in a rank when they are due, and report them."""

import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlbench.contract.errors import MLBenchError
from mlbench.contract.limits import MAX_ERROR_LENGTH
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, Offset, send_patiently
from mlbench_worker.agent.process_lookup import descendants, environ_of

if TYPE_CHECKING:
    from mlbench.contract.faults import Fault

log = logging.getLogger(__name__)

_PERIOD_SECONDS = 0.1
"""Period in which a slowed worker runs for a part of the time, and is stopped for the rest."""


class Faults:
    """Carries out each fault of an attempt once, in a separate thread."""

    def __init__(
        self,
        attempt: Attempt,
        pod: str,
        connect: Callable[[], MasterClient],
        offset: Callable[[], Offset | None],
    ) -> None:
        """``offset`` returns the lead of this machine's clock over the master's."""
        self._attempt = attempt
        self._pod = pod
        self._connect = connect
        self._offset = offset
        self._known: set[int] = set()

    def follow(self, due: Sequence[Mapping[str, Any]]) -> None:
        """Schedule the new faults of the rank."""
        for order in due:
            # Slow imports: an external rank must not wait for them.
            from mlbench.contract.faults import Fault  # noqa: PLC0415

            number = int(order["id"])
            if number not in self._known:
                self._known.add(number)
                arguments = number, Fault.parse(order["fault"]), float(order["at"])
                threading.Thread(target=self._do, args=arguments, name="fault", daemon=True).start()

    def _do(self, number: int, fault: "Fault", at: float) -> None:
        offset = self._offset()
        ahead = offset.seconds if offset else 0.0
        time.sleep(max(0.0, at + ahead - time.time()))
        attempt, a, late = self._attempt, self._attempt.assignment, time.time() - at - ahead
        # A fault that was due before the attempt began belongs to the attempt before.
        if attempt.pid is None or attempt.exit or time.monotonic() - attempt.began < late:
            return
        log.info("run %d: %s of rank %d", a.run_id, fault.kind, a.rank)
        body: dict[str, object] = {"at": time.time() - ahead, "attempt": a.attempt}
        try:
            finish = _begin(fault, attempt)
        except (OSError, MLBenchError) as error:
            body["problem"], finish = str(error)[:MAX_ERROR_LENGTH], lambda: None
        # Sent from another thread, so that a slow master does not prolong the fault.
        path = f"/api/workers/{quote(self._pod)}/runs/{a.run_id}/faults/{number}"
        message = (self._connect, path, json.dumps(body).encode())
        threading.Thread(target=send_patiently, args=message, daemon=True).start()
        finish()


def _begin(fault: "Fault", attempt: Attempt) -> Callable[[], None]:
    """Begin a fault; return a function that continues it until its end.

    Raises:
        OSError, MLBenchError: the fault cannot be carried out.
    """
    match fault.kind:
        case "kill":
            _signal(attempt, signal.SIGKILL)
            return lambda: None
        case "stop" | "slow":
            attempt.injected_stops += 1
            _signal(attempt, signal.SIGSTOP)
            share = (fault.percent or 0.0) / 100
            until = math.inf if fault.seconds is None else time.monotonic() + fault.seconds

            def hold_back() -> None:
                """Let the processes run for a share of the time only, until the fault's end."""
                while (remaining := until - time.monotonic()) > 0:
                    pause = (1 - share) * _PERIOD_SECONDS if share else remaining
                    if attempt.ended.wait(min(pause, remaining)):
                        return
                    if share:
                        _signal(attempt, signal.SIGCONT)
                        attempt.ended.wait(share * _PERIOD_SECONDS)
                        _signal(attempt, signal.SIGSTOP)
                _signal(attempt, signal.SIGCONT)
                attempt.injected_stops -= 1

            return hold_back
        case "network" if network := attempt.network:
            network.plug(is_in=False)

            def reconnect() -> None:
                if not attempt.ended.wait(fault.seconds):
                    network.plug(is_in=True)

            return reconnect
    raise OSError(f"this worker has no {fault.kind} to cut")


def _signal(attempt: Attempt, number: signal.Signals) -> None:
    """Send a signal to the processes of a rank, with torchrun only to the first of its ranks."""
    root = attempt.pid
    if root is None:
        return
    # torchrun sets this variable for its ranks, not for itself.
    is_rank = "TORCHELASTIC_RESTART_COUNT"
    pids = [root, *descendants(root)]
    root = next((pid for pid in pids if is_rank in environ_of(pid)), root)
    for pid in [root, *descendants(root)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
