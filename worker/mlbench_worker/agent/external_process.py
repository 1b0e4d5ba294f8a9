"""The processes of an external rank, about which its sidecar reads messages on standard input."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from mlbench_worker.agent.process_lookup import descendants, state_of
from mlbench_worker.agent.training_process import GRACE_SECONDS, Exit


class ExternalProcess:
    """The first process of a rank that a launcher started, and also ends."""

    def __init__(self, root: int) -> None:
        self.root = root
        """The process whose descendants are the rank."""
        self._command: int | None = None
        self._is_asked_to_stop = False
        self._rest: tuple[int, str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the rank's first process."""
        return self._command or self.root

    def watch(self, on_exit: Callable[[Exit, str, str], None], on_rest: Callable[[], None]) -> None:
        """Start a thread that reads the messages.

        ``on_exit`` is called at the rank's end with its exit, its failure and its missing values.
        ``on_rest`` is called after each cell of a notebook, because its kernel may end soon,
        together with its machine.
        """
        threading.Thread(target=lambda: on_exit(*self._wait(on_rest)), daemon=True).start()

    def stop(self) -> None:
        """Ask the rank to end; only the first call sends a signal."""
        if self._is_asked_to_stop:
            return
        self._is_asked_to_stop = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def enforce_stop(self) -> None:
        """Do nothing, because only the launcher decides to kill a rank."""

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
            time.sleep(0.02)
