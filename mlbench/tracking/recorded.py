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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mlbench.contract import names
from mlbench.contract.masking import MASK, mask_words
from mlbench.tracking.companion import Companion
from mlbench.tracking.job import find_job

if TYPE_CHECKING:
    from io import FileIO

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_STDOUT, _STDERR = 1, 2
_CHUNK_BYTES = 1 << 16
# What a command leaves behind may hold its output open.
_OUTPUT_SECONDS = 1.0
# timeout and some launchers signal a process and then its group. The second of such a pair is not
# passed on, as the kernel merges signals that are pending.
_REPEAT_SECONDS = 0.1
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
    parser.add_argument("--hide-command", action="store_true", help="record no command line")
    parser.add_argument("command", nargs="+", help="the command, after --")
    options = parser.parse_args(arguments)
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass  # it was closed: nothing else shall be taken for the output
    os.close(descriptor)
    signals = _Signals()
    try:
        job = find_job(os.environ, key=options.key, workers=options.workers)
        name = options.name or _name_of(options.command)
        # A run of MLBench records it already.
        is_recorded = names.ENV_METRICS_FILE in os.environ
        companion = None
        if not is_recorded:
            hide = options.hide_command
            companion = Companion(job, name, options.command, hide_command=hide)
    except Exception as error:  # whatever it is, the command runs
        print(f"mlbench: not recorded: {error}", file=sys.stderr, flush=True)
        companion = None
    if companion is None:
        sys.exit(_become(options.command, signals))
    _end_as(_run(options.command, companion, signals))


def _name_of(command: Sequence[str]) -> str:
    """Return the name of a script, or else of the program."""
    masked = mask_words(command)
    words = (word for word in masked[1:] if not word.startswith("-") and MASK not in word)
    return Path(next(words, masked[0])).name


def _say_not_started(command: Sequence[str], error: OSError) -> tuple[int, str]:
    """Say that a command cannot be started; return the exit code of a shell, and the words."""
    words = f"cannot start {command[0]}: {error.strerror}"
    print(f"mlbench: {words}", file=sys.stderr, flush=True)
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    return code, words


def _become(command: Sequence[str], signals: "_Signals") -> int:
    """Become a command that is not recorded; return an exit code if that cannot be."""
    signals.give_up()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], [*command])  # noqa: S606 - a shell would change its words
    except OSError as error:
        return _say_not_started(command, error)[0]


def _run(command: Sequence[str], companion: Companion, signals: "_Signals") -> int:
    """Run a command to its end, and return its exit code (negative: the signal)."""
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **companion.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Signals to the group of this process would reach the command twice.
            process_group=None if signals.come_from_terminal else 0,
        )
    except OSError as error:
        code, words = _say_not_started(command, error)
        companion.end(code, words)
        return code
    signals.begin(process.pid)
    companion.begin(process.pid)
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = companion.logs
    copiers = [_Copier(process.stdout, _STDOUT, out), _Copier(process.stderr, _STDERR, err)]
    code, at = process.wait(), time.time()
    for copier in copiers:
        copier.end()
    lost = sorted({copier.lost for copier in copiers if copier.lost})
    with contextlib.suppress(KeyboardInterrupt):
        signals.end()
        companion.end(code, missing="; ".join(lost), at=at)
    return code


class _Copier(threading.Thread):
    """Passes output on as it comes, and keeps a copy as long as there is room."""

    def __init__(self, source: IO[bytes], target: int, log: Path) -> None:
        super().__init__(daemon=True)
        self.lost = ""
        """Why not all is kept; empty if it is."""
        self._source = source
        self._target = target
        self._log = log
        self._kept: FileIO | None = None
        self._is_writing = False
        self.start()

    def run(self) -> None:
        """Copy until the output ends, or nobody reads it."""
        with self._source as source:
            while data := os.read(source.fileno(), _CHUNK_BYTES):
                self._is_writing = True
                try:
                    _write(self._target, data)
                except OSError:  # so the command learns, as it would without us
                    return
                try:
                    self._keep(data)
                except OSError as error:
                    self.lost = f"not all of its output is kept: {error.strerror}"
                self._is_writing = False

    def _keep(self, data: bytes) -> None:
        self._kept = self._kept or self._log.open("ab", buffering=0)
        if self._kept.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end(self) -> None:
        """Wait for the rest, however slow its reader is, but not for what others may add."""
        while True:
            self.join(_OUTPUT_SECONDS)
            if not (self.is_alive() and self._is_writing):
                return


def _write(target: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(target, left) :]
        except BlockingIOError:  # a pipe that its reader has made so
            select.select([], [target], [])


class _Signals:
    """Passes signals on to the command once, including those that come before it has begun."""

    def __init__(self) -> None:
        self.come_from_terminal = _foreground_group() == os.getpgrp()
        """Whether the command shares this process's group, which the terminal signals."""
        self._pid: int | None = None
        self._early: list[int] = []
        self._has_ended = False
        self._last: dict[int, float] = {}
        for number in _PASSED_ON:
            # What is ignored here, as by nohup, the command ignores too.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def begin(self, pid: int) -> None:
        """Pass them on to a process."""
        self._pid = pid
        while self._early:
            self._send(self._early.pop(0))

    def give_up(self) -> None:
        """Leave all signals to this process, those too that have come."""
        for number in _PASSED_ON:
            if signal.getsignal(number) == self._pass_on:
                signal.signal(number, signal.SIG_DFL)
        while self._early:
            os.kill(os.getpid(), self._early.pop(0))

    def end(self) -> None:
        """Have the next signal end the wait for what is yet to be shipped."""
        self._has_ended = True

    def _pass_on(self, number: int, _: object) -> None:
        now = time.monotonic()
        is_repeat = now - self._last.get(number, -_REPEAT_SECONDS) < _REPEAT_SECONDS
        self._last[number] = now
        if is_repeat:
            return
        if self._has_ended:
            if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                raise KeyboardInterrupt
        elif self._pid is None:
            self._early.append(number)
        # Signals of the terminal reach a command in the same group anyway.
        elif not (
            self.come_from_terminal
            and number in _OF_TERMINAL
            and _foreground_group() == os.getpgrp()
        ):
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _foreground_group() -> int | None:
    """Return the process group that the terminal's signals reach; None if there is no terminal."""
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - a device
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return None


def _end_as(code: int) -> None:
    """End by the same signal, or with the same exit code."""
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        with contextlib.suppress(ValueError):
            # A core would replace that of the command.
            _, most = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        os.kill(os.getpid(), -code)
    # The first process of a container survives all signals of its own.
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
