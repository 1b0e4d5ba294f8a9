"""Run and record the command of an external job: ``mlbench record -- python train.py``.

Output, signals and exit code of the command are unchanged. This module needs only the standard
library, because the agent's single file contains it too.
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
from typing import IO, TYPE_CHECKING, NoReturn

from mlbench.contract import names, printed_values
from mlbench.contract.masking import MASK, mask_words
from mlbench.tracking.job import find_job
from mlbench.tracking.recorder_sidecar import RecorderSidecar

if TYPE_CHECKING:
    from io import FileIO

_STDOUT, _STDERR = 1, 2
# timeout and some launchers signal a process and then its group. The second signal of such a pair
# is not passed on, just as the kernel merges pending signals.
_REPEAT_SECONDS = 0.1
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH)
_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command after ``--``, and end as it does."""
    parser = argparse.ArgumentParser(prog="mlbench record", description=__doc__)
    # `mlbench record --help` describes the options.
    for option in ("--name", "--key"):
        parser.add_argument(option)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--hide-command", action="store_true")
    parser.add_argument("--from-stdout", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass  # a closed stdin, stdout or stderr must not be reused for another file
    os.close(descriptor)
    if options.from_stdout:
        os.environ[names.ENV_FROM_STDOUT] = "1"
        print(f"mlbench: {printed_values.HELP}", file=sys.stderr, flush=True)
    signals = _Signals()
    try:
        job = find_job(os.environ, key=options.key, workers=options.workers)
        masked = mask_words(options.command)
        script = (word for word in masked[1:] if not word.startswith("-") and MASK not in word)
        name = options.name or Path(next(script, masked[0])).name
        sidecar = None
        if names.ENV_METRICS_FILE not in os.environ:  # otherwise a run of MLBench records it
            hide = options.hide_command
            sidecar = RecorderSidecar(job, name, options.command, hide_command=hide)
    except Exception as error:  # the command must run in any case
        print(f"mlbench: not recorded: {error}", file=sys.stderr, flush=True)
        sidecar = None
    if sidecar is not None:
        _end_as(_run(options.command, sidecar, signals))
    # An unrecorded command replaces this process.
    signals.give_up()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        # A shell would change the words of the command.
        os.execvp(options.command[0], options.command)  # noqa: S606
    except OSError as error:
        sys.exit(_report_not_started(options.command, error)[0])


def _report_not_started(command: Sequence[str], error: OSError) -> tuple[int, str]:
    """Print that a command cannot be started; return the exit code of a shell, and the message."""
    message = f"cannot start {command[0]}: {error.strerror}"
    print(f"mlbench: {message}", file=sys.stderr, flush=True)
    return 127 if isinstance(error, FileNotFoundError) else 126, message


def _run(command: Sequence[str], sidecar: RecorderSidecar, signals: "_Signals") -> int:
    """Run a command to its end, and return its exit code (negative: the signal)."""
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **sidecar.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A separate group: in this process's group, a signal would reach the command twice.
            process_group=None if signals.come_from_terminal else 0,
        )
    except OSError as error:
        code, message = _report_not_started(command, error)
        sidecar.end(code, message)
        return code
    signals.begin(process.pid)
    sidecar.begin(process.pid)
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = sidecar.logs
    copiers = [_Copier(process.stdout, _STDOUT, out), _Copier(process.stderr, _STDERR, err)]
    code, at = process.wait(), time.time()
    for copier in copiers:
        copier.end()
    lost = sorted({copier.lost for copier in copiers if copier.lost})
    with contextlib.suppress(KeyboardInterrupt):
        signals.end()
        sidecar.end(code, missing="; ".join(lost), at=at)
    return code


class _Copier(threading.Thread):
    """Passes output on at once, and copies it to a file until the disk is full."""

    def __init__(self, source: IO[bytes], target: int, log: Path) -> None:
        super().__init__(daemon=True)
        self.lost = ""
        """Reason why the copy is incomplete; empty if it is complete."""
        self._source = source
        self._target = target
        self._log = log
        self._copy: FileIO | None = None
        self._is_writing = False
        self.start()

    def run(self) -> None:
        """Copy until the output ends or its reader closes it."""
        with self._source as source:
            while data := os.read(source.fileno(), 1 << 16):
                self._is_writing = True
                try:
                    _write(self._target, data)
                except OSError:  # closing the source tells the command, as without MLBench
                    return
                try:
                    self._copy = self._copy or self._log.open("ab", buffering=0)
                    if self._copy.write(data) < len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                except OSError as error:
                    self.lost = f"part of its output is not recorded: {error.strerror}"
                self._is_writing = False

    def end(self) -> None:
        """Wait until everything is written, but not for processes that hold the output open."""
        while True:
            self.join(1.0)
            if not (self.is_alive() and self._is_writing):
                return


def _write(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:  # the reader of the pipe may have made it non-blocking
            select.select([], [target], [])


class _Signals:
    """Passes each signal on to the command once, including signals before its start."""

    def __init__(self) -> None:
        self.come_from_terminal = _foreground_group() == os.getpgrp()
        """Whether the command shares this process's group, which the terminal signals."""
        self._pid: int | None = None
        self._early: list[int] = []
        self._has_ended = False
        self._last: dict[int, float] = {}
        for number in _PASSED_ON:
            # Signals ignored here, for example by nohup, are ignored by the command too.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def begin(self, pid: int) -> None:
        """Pass signals on to a process, the early ones first."""
        self._pid = pid
        while self._early:
            self._send(self._early.pop(0))

    def give_up(self) -> None:
        """Restore the default handlers, and deliver the early signals to this process."""
        for number in _PASSED_ON:
            if signal.getsignal(number) == self._pass_on:
                signal.signal(number, signal.SIG_DFL)
        while self._early:
            os.kill(os.getpid(), self._early.pop(0))

    def end(self) -> None:
        """Let the next signal end the wait for the remaining delivery."""
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
        # Signals of the terminal reach a command in the same process group anyway.
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
    """Return the foreground process group of the terminal; None without a terminal."""
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - a device
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return None


def _end_as(code: int) -> NoReturn:
    """Exit with the same signal or exit code as the command."""
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        with contextlib.suppress(ValueError):
            # A core dump of this process would overwrite the core dump of the command.
            _, maximum = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (0, maximum))
        os.kill(os.getpid(), -code)
    # Reached after a signal too: the first process of a container survives its own signals.
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
