"""Run a command that others start, and record it: ``mlbench record -- python train.py``.

Output, signals and exit code are the command's own. Nothing here needs more than Python, so that
the agent's one file has it too.
"""

import argparse
import contextlib
import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from mlbench import names
from mlbench.companion import Companion
from mlbench.job import find_job

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_CHUNK_BYTES = 1 << 16
# What a command leaves behind may hold its output open.
_OUTPUT_SECONDS = 1.0
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command after ``--``, and end as it does."""
    parser = argparse.ArgumentParser(prog="mlbench record", description=__doc__)
    parser.add_argument("--name", help="of the run; by default that of the program")
    parser.add_argument("--key", help="what the ranks of one job share, and no other job")
    parser.add_argument("--workers", type=int, help="how many ranks the job has")
    parser.add_argument("command", nargs="+", help="the command, after --")
    options = parser.parse_args(arguments)
    signals = _Signals()
    try:
        job = find_job(os.environ, key=options.key, workers=options.workers)
        name = options.name or _name_of(options.command)
        # A run of MLBench records it already.
        is_recorded = names.ENV_METRICS_FILE in os.environ
        companion = None if is_recorded else Companion(job, name, options.command, os.getpid())
    except Exception as error:  # whatever it is, the command runs
        print(f"mlbench: not recorded: {error}", file=sys.stderr, flush=True)
        companion = None
    _end_as(_run(options.command, companion, signals))


def _name_of(command: Sequence[str]) -> str:
    """Return the name of a script, or else of the program."""
    words = (word for word in command[1:] if not word.startswith("-"))
    return Path(next(words, command[0])).name


def _run(command: Sequence[str], companion: Companion | None, signals: "_Signals") -> int:
    """Run a command to its end, and return its exit code (negative: the signal)."""
    pipe = subprocess.PIPE if companion else None
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(companion.variables if companion else {})},
            stdout=pipe,
            stderr=pipe,
            # Signals to the group of this process would reach it twice.
            process_group=0 if companion and not signals.come_from_terminal else None,
        )
    except OSError as error:
        words = f"cannot start {command[0]}: {error.strerror}"
        print(f"mlbench: {words}", file=sys.stderr, flush=True)
        code = _NOT_EXECUTABLE if isinstance(error, PermissionError) else _NOT_FOUND
        if companion is not None:
            companion.end(code, words)
        return code
    signals.begin(process.pid)
    if companion is None:
        return process.wait()
    companion.begin(process.pid)
    assert process.stdout is not None
    assert process.stderr is not None
    lost: set[str] = set()
    ends = ((process.stdout, 1), (process.stderr, 2))
    threads = [
        threading.Thread(target=_copy, args=(source, target, log, lost), daemon=True)
        for (source, target), log in zip(ends, companion.logs, strict=True)
    ]
    for thread in threads:
        thread.start()
    code = process.wait()
    for thread in threads:
        thread.join(_OUTPUT_SECONDS)
    signals.end()
    with contextlib.suppress(KeyboardInterrupt):
        companion.end(code, "; ".join(sorted(lost)))
    return code


def _copy(source: BinaryIO, target: int, log: Path, lost: set[str]) -> None:
    """Pass output on as it comes, and keep a copy as long as there is room."""
    with source, log.open("ab", buffering=0) as kept:
        while data := os.read(source.fileno(), _CHUNK_BYTES):
            try:
                _write(target, data)
            except OSError:  # nobody reads it: so the command learns, as it would without us
                return
            try:
                if kept.write(data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                lost.add(f"not all of its output is kept: {error.strerror}")


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:  # a pipe that its reader has made so
            select.select([], [target], [])


class _Signals:
    """Passes on to the command what signals come, those too that come before it has begun."""

    def __init__(self) -> None:
        self.come_from_terminal = _has_terminal()
        self._pid: int | None = None
        self._early: list[int] = []
        for number in _PASSED_ON:
            # What is ignored here, as by nohup, the command ignores too.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def begin(self, pid: int) -> None:
        """Pass them on to a process."""
        self._pid = pid
        while self._early:
            self._send(self._early.pop(0))

    def end(self) -> None:
        """Have the next one end the wait for what is yet to be shipped."""
        self._pid = None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) == self._pass_on:
                signal.signal(number, signal.default_int_handler)

    def _pass_on(self, number: int, _: object) -> None:
        if self._pid is None:
            self._early.append(number)
        # Those of the terminal reach the command anyway.
        elif number not in _OF_TERMINAL or not (self.come_from_terminal and _is_in_foreground()):
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _has_terminal() -> bool:
    try:
        with open("/dev/tty", "rb"):  # noqa: PTH123 - a device
            return True
    except OSError:
        return False


def _is_in_foreground() -> bool:
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - a device
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _end_as(code: int) -> None:
    """End by the same signal, or with the same exit code."""
    if code < 0:
        sys.stdout.flush()
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        with contextlib.suppress(ValueError):
            # A core would replace that of the command.
            resource.setrlimit(
                resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
            )
        os.kill(os.getpid(), -code)
    # The first process of a container survives all signals of its own.
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
