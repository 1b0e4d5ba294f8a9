"""An external rank, whose recorder receives messages about it on standard input."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from mlbench.contract import names
from mlbench.contract.humanize import visible
from mlbench.tracking.job_totals import JobTotals, read_totals
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.exits import Exit
from mlbench_worker.agent.receivers.process_lookup import descendants, state_of
from mlbench_worker.agent.training_process import GRACE_SECONDS

LOOK_SECONDS = 0.02


class ExternalRank:
    """An external rank, whose end is reported on standard input."""

    def __init__(self, attempt: Attempt, root: int) -> None:
        self._attempt = attempt
        self.root = root
        """The process whose descendants are the rank."""
        self._command: int | None = None
        self._is_asked_to_stop = False
        self._rest: tuple[int, str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the rank's first process."""
        return self._command or self.root

    def listen(
        self,
        before_end: Callable[[], None],
        on_end: Callable[[], None],
        on_rest: Callable[[], None],
    ) -> None:
        """Start a thread that notes the rank's end.

        ``on_rest`` is called after each cell of a notebook, because its kernel may end soon,
        together with its machine.
        """

        def run() -> None:
            ended, failure, missing = self._wait(on_rest)
            before_end()
            if lost := sum(totals.lost for totals in totals_of(self._attempt)):
                words = f"{lost:,} values could not be written: no room was left for them"
                log_to_user(f"{words}, of rank {self._attempt.assignment.rank}")
                missing = "; ".join(filter(None, [words, missing]))
            self._attempt.conclude(ended, failure, missing, lost)
            on_end()

        threading.Thread(target=run, name="rank", daemon=True).start()

    def stop(self) -> None:
        """Ask the rank to end; only the first call sends a signal."""
        if self._is_asked_to_stop:
            return
        self._is_asked_to_stop = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def _wait(self, on_rest: Callable[[], None]) -> tuple[Exit, str, str]:
        """Wait for the rank's end; return its exit, its failure, and its missing values."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "exits" in message:  # followed by a byte with the exit code
                byte = sys.stdin.buffer.read(1)
                if byte:
                    return Exit(byte[0], time.time()), "", message["missing"]
            elif "exit" in message:
                code = max(-255, min(255, message["exit"]))
                return Exit(code, message["at"]), message["failure"], message["missing"]
            elif "rest" in message:
                rest = message["rest"]
                self._rest = rest and (rest["code"], rest["failure"])
                on_rest()
            else:
                self._command = message["pid"]
        # Standard input has ended without an exit: the process that writes it was killed.
        if self._command is not None:
            # Its launcher considers the rank ended, so the command must end, too.
            _end(self._command)
        if self._rest is not None:
            code, failure = self._rest
            return Exit(code, time.time()), failure, ""
        if self._command is None:
            failure = "its Python ended without a word: it was killed, or left by os._exit"
        else:
            failure = "its recorder was killed, and so the command was ended"
        return Exit(-signal.SIGKILL, time.time()), failure, ""


def _end(command: int) -> None:
    """End a command and its descendants: by SIGTERM, and after a grace period by SIGKILL."""
    pids = [command, *descendants(command)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        # A zombie has ended, although its parent has not waited for it.
        while any(state_of(pid) not in "ZX" for pid in pids) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def totals_of(attempt: Attempt) -> list[JobTotals]:
    """Return the totals of a rank's processes, in order of ranks."""
    pattern = names.totals_file(attempt.file("metrics").name, "*")
    paths = attempt.folder.glob(pattern)
    return [read_totals(path) for path in sorted(paths, key=lambda path: (len(path.name), path))]


def log_to_user(words: str) -> None:
    """Write a message to the job's output, if that is still open."""
    with suppress(OSError):
        # A single write, because other ranks may write there, too.
        sys.stderr.write(f"mlbench: {visible(words)}\n")
        sys.stderr.flush()
