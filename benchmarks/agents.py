"""Simulated workers: the agent's own link, files and shipper, with lines instead of a process."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.local.backoff import Backoff
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, MasterClientError
from mlbench_worker.agent.shipper import Shipper
from mlbench_worker.agent.training_process import Exit

# Metrics of panels of the run dashboard. Further metrics have numbers.
_ASKED_FOR = (names.TRAIN_LOSS, names.TRAIN_ACCURACY, names.STEP)
_PROCESSES = 2
_COME_UP_SECONDS = 10.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Work:
    """Work of each rank, at one step per second."""

    steps: int
    metrics: int
    """Values of each step."""
    stdout_bytes: int = 0
    """Bytes that rank 0 prints during the run."""


@dataclass
class RequestLog:
    """Durations and failures of the requests of agents to the master."""

    polls: list[float] = field(default_factory=list)
    """Seconds from each poll to its answer."""
    failures: list[str] = field(default_factory=list)
    """The polls and shipments that failed."""


def start(
    pool: ProcessPoolExecutor, tokens: Mapping[str, str], url: str, folder: Path, work: Work
) -> list["Future[RequestLog]"]:
    """Have the agents of these pods, each with its token, work until their run has ended."""
    parts = [dict(list(tokens.items())[first::_PROCESSES]) for first in range(_PROCESSES)]
    return [pool.submit(_work, part, url, folder, work) for part in parts]


def processes() -> ProcessPoolExecutor:
    """Return processes for ``start``."""
    return ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn"))


def _work(tokens: Mapping[str, str], url: str, folder: Path, work: Work) -> RequestLog:
    log, shipper_log = RequestLog(), logging.getLogger("mlbench_worker.agent.shipper")
    shipper_log.addHandler(_Notes(log.failures))
    agents = [_Agent(pod, token, url, folder / pod, work, log) for pod, token in tokens.items()]
    for number, agent in enumerate(agents):
        # Spread over a second, as in a cluster, whose pods start over several seconds.
        agent.writes_at = number / len(agents)
        agent.start()
        time.sleep(_COME_UP_SECONDS / len(agents))
    while any(agent.is_alive() for agent in agents):
        began = time.monotonic()
        for agent in agents:
            time.sleep(max(0.0, began + agent.writes_at - time.monotonic()))
            agent.write()
        time.sleep(max(0.0, began + 1 - time.monotonic()))
    for agent in agents:
        agent.join()
    return log


class _Notes(logging.Handler):
    def __init__(self, failures: list[str]) -> None:
        super().__init__()
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        self._failures.append(record.getMessage())


class _Agent(threading.Thread):
    """Polls as the agent does, until its rank is done."""

    def __init__(
        self, pod: str, token: str, url: str, folder: Path, work: Work, log: RequestLog
    ) -> None:
        super().__init__(name=pod, daemon=True)
        self.writes_at = 0.0
        self._folder, self._work, self._log = folder, work, log
        self._link, self._shippers = MasterClient(url, token), MasterClient(url, token)
        metrics = *_ASKED_FOR, *(f"metric_{i}" for i in range(work.metrics))
        self._metrics = metrics[: work.metrics]
        self._attempt: Attempt | None = None
        self._shipper: Shipper | None = None
        self._file = -1
        self._written = 0

    def run(self) -> None:
        """Poll, and do what the master says."""
        backoff, is_done = Backoff(), False
        while not is_done:
            sent_at = time.monotonic()
            try:
                reply = self._link.poll(self.name, self._report())
            except MasterClientError as error:
                self._log.failures.append(str(error))
                time.sleep(backoff.seconds())
                continue
            backoff.reset()
            self._log.polls.append(time.monotonic() - sent_at)
            if reply.do == "start" and self._attempt is None:
                assignment = Assignment.from_fields(reply.assignment)
                self._attempt = attempt = Attempt.create(self._folder, assignment)
                self._shipper = Shipper(attempt, self._shippers)
                self._shipper.start()
                self._file = os.open(attempt.file("metrics"), os.O_WRONLY | os.O_APPEND)
                if assignment.rank == 0 and self._work.stdout_bytes:
                    _start_printing(attempt, self._work.stdout_bytes)
            elif reply.do == "stop" and self._attempt is not None:
                is_done = self._shipper is not None and not self._shipper.is_alive()
            time.sleep(0.25 if reply.do == "start" else reply.next_poll_seconds)
        self._link.close()

    def write(self) -> None:
        """Write the line of a step, and end with the last one."""
        attempt = self._attempt
        if attempt is None or self._file < 0:
            return
        step, self._written = self._written, self._written + 1
        logged = enumerate(self._metrics)
        values = ",".join(f'"{metric}":{step + i / 1000!r}' for i, metric in logged)
        line = f'{{"time":{time.time():.6f},"metrics":{{{values}}}}}\n'
        os.write(self._file, line.encode())
        if self._written == self._work.steps:
            os.close(self._file)
            self._file = -1
            # As if its process had ended.
            attempt._note_exit(Exit(0, time.time()))

    def _report(self) -> dict[str, object]:
        report: dict[str, object] = {"state": "idle", "ip": "127.0.0.1"}
        if self._attempt is None:
            return report
        a, ended = self._attempt.assignment, self._attempt.exit
        report |= {"state": "running", "run_id": a.run_id, "attempt": a.attempt, "rank": a.rank}
        if ended is not None:
            report |= {"state": "exited", "exit_code": ended.code, "exited_at": ended.at}
            report["sizes"] = self._attempt.sizes()
        return report


def _start_printing(attempt: Attempt, size: int) -> None:
    """Write about ``size`` bytes to the stdout of a rank, in a thread."""

    def print_lines() -> None:
        line = b"epoch 1: " + b"x" * 90 + b"\n"
        chunk = line * (_CHUNK_BYTES // len(line))
        with attempt.file("stdout").open("ab") as file, suppress(OSError):
            for _ in range(size // len(chunk)):
                file.write(chunk)

    threading.Thread(target=print_lines, daemon=True).start()
