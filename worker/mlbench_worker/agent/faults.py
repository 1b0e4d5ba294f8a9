"""The failures that the master has for a rank: each is carried out when it is due, and reported."""

import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from mlbench.contract.assignment import Assignment
from mlbench.contract.errors import MLBenchError
from mlbench.contract.faults import Fault
from mlbench.contract.limits import MAX_ERROR_LENGTH
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.link import Link, Offset, send_patiently
from mlbench_worker.agent.network import Network
from mlbench_worker.agent.sources.processes import descendants, environ_of

log = logging.getLogger(__name__)

# A slow worker runs for its share of each such time.
_PERIOD_SECONDS = 0.1
# What a process of torchrun's has, and torchrun itself has not.
_OF_TORCHRUN = "TORCHELASTIC_RESTART_COUNT"


class Faults:
    """Carries out failures, each once, in a thread of its own."""

    def __init__(
        self,
        pod: str,
        connect: Callable[[], Link],
        current: Callable[[], Attempt | None],
        offset: Callable[[], Offset | None],
    ) -> None:
        """``current`` tells the attempt that goes on; ``offset`` compares the master's clock."""
        self._pod = pod
        self._connect = connect
        self._current = current
        self._offset = offset
        self._known: set[tuple[int, int]] = set()

    def follow(self, due: Sequence[Mapping[str, Any]], assignment: Assignment) -> None:
        """Carry out those of a rank that are new, each when it is due."""
        for one in due:
            key = (assignment.run_id, int(one["id"]))
            if key not in self._known:
                self._known.add(key)
                its = (*key, assignment.rank, Fault.parse(one["fault"]), float(one["at"]))
                threading.Thread(target=self._do, args=its, name="fault", daemon=True).start()

    def _do(self, run_id: int, number: int, rank: int, fault: Fault, at: float) -> None:
        offset = self._offset()
        ahead = offset.seconds if offset else 0.0
        time.sleep(max(0.0, at + ahead - time.time()))
        attempt, late = self._current(), time.time() - at - ahead
        # Also the attempt may be another one by now.
        its_rank = attempt and (attempt.assignment.run_id, attempt.assignment.rank)
        if not attempt or its_rank != (run_id, rank) or attempt.pid is None or attempt.exit:
            return
        if time.monotonic() - attempt.began < late:
            return
        log.info("run %d: %s of rank %d", run_id, fault.kind, rank)
        body: dict[str, object] = {"at": time.time() - ahead, "attempt": attempt.assignment.attempt}
        try:
            go_on = _begin(fault, attempt)
        except (OSError, MLBenchError) as error:
            body["problem"], go_on = str(error)[:MAX_ERROR_LENGTH], lambda: None
        # A master that is slow must not make it last longer.
        path = f"/api/workers/{quote(self._pod)}/runs/{run_id}/faults/{number}"
        sent = (self._connect, path, json.dumps(body).encode())
        threading.Thread(target=send_patiently, args=sent, daemon=True).start()
        go_on()


def _begin(fault: Fault, attempt: Attempt) -> Callable[[], None]:
    """Begin a failure, and return what goes on with it to its end.

    Raises:
        OSError, MLBenchError: it cannot be carried out.
    """
    match fault.kind:
        case "kill":
            _signal(attempt, signal.SIGKILL)
            return lambda: None
        case "stop" | "slow":
            attempt.injected_stops += 1
            _signal(attempt, signal.SIGSTOP)
            return lambda: _hold_back(attempt, (fault.percent or 0.0) / 100, fault.seconds)
        case "network" if network := attempt.network:
            network.plug(is_in=False)
            return lambda: _cut(attempt, network, fault.seconds)
    raise OSError(f"there is no {fault.kind} for this worker")


def _hold_back(attempt: Attempt, share: float, seconds: float | None) -> None:
    """Let processes that were stopped run for a share of their time only, to the failure's end."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if attempt.ended.wait(min((1 - share) * _PERIOD_SECONDS if share else left, left)):
            return
        if share:
            _signal(attempt, signal.SIGCONT)
            attempt.ended.wait(share * _PERIOD_SECONDS)
            _signal(attempt, signal.SIGSTOP)
    _signal(attempt, signal.SIGCONT)
    attempt.injected_stops -= 1


def _cut(attempt: Attempt, network: Network, seconds: float | None) -> None:
    """Plug a network in again at the end of the failure, unless its attempt has ended."""
    if not attempt.ended.wait(seconds):
        network.plug(is_in=True)


def _signal(attempt: Attempt, number: signal.Signals) -> None:
    """Send a signal to the processes of a rank; of several that torchrun has, to the first one."""
    root = attempt.pid
    if root is None:
        return
    every = [root, *descendants(root)]
    root = next((pid for pid in every if _OF_TORCHRUN in environ_of(pid)), root)
    for pid in [root, *descendants(root)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
