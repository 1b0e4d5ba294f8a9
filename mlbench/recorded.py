"""Run a command that others start, and record it: ``mlbench record -- python train.py``.

Output, signals and exit code are the command's own. Nothing here needs more than Python, so that
the agent's one file has it too.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from mlbench.companion import Companion
from mlbench.errors import MLBenchError
from mlbench.job import find_job

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_CHUNK_BYTES = 1 << 16
# What a command leaves behind may hold its output open.
_OUTPUT_SECONDS = 1.0
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
    try:
        job = find_job(os.environ, key=options.key, workers=options.workers)
        name = options.name or Path(options.command[-1 if len(options.command) == 1 else 1]).name
        companion = Companion(job, name, options.command, os.getpid())
    except MLBenchError as error:
        print(f"mlbench: not recorded: {error}", file=sys.stderr, flush=True)
        companion = None
    _end_as(_run(options.command, companion))


def _run(command: Sequence[str], companion: Companion | None) -> int:
    """Run a command to its end, and return its exit code (negative: the signal)."""
    pipe = subprocess.PIPE if companion else None
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(companion.variables if companion else {})},
            stdout=pipe,
            stderr=pipe,
        )
    except OSError as error:
        words = f"cannot start {command[0]}: {error.strerror}"
        print(f"mlbench: {words}", file=sys.stderr, flush=True)
        code = _NOT_EXECUTABLE if isinstance(error, PermissionError) else _NOT_FOUND
        if companion is not None:
            companion.end(code, words)
        return code
    _pass_signals_on(process.pid)
    if companion is None:
        return process.wait()
    companion.begin(process.pid)
    assert process.stdout is not None
    assert process.stderr is not None
    ends = ((process.stdout, 1), (process.stderr, 2))
    threads = [
        threading.Thread(target=_copy, args=(source, target, log), daemon=True)
        for (source, target), log in zip(ends, companion.logs, strict=True)
    ]
    for thread in threads:
        thread.start()
    code = process.wait()
    for thread in threads:
        thread.join(_OUTPUT_SECONDS)
    companion.end(code)
    return code


def _copy(source: BinaryIO, target: int, log: Path) -> None:
    """Pass output on as it comes, and keep a copy as long as there is room."""
    with source, log.open("ab", buffering=0) as kept:
        while data := os.read(source.fileno(), _CHUNK_BYTES):
            left = memoryview(data)
            try:
                while left:
                    left = left[os.write(target, left) :]
            except OSError:  # nobody reads it: so the command learns, as it would without us
                return
            with contextlib.suppress(OSError):
                kept.write(data)


def _pass_signals_on(pid: int) -> None:
    def pass_on(number: int, _: object) -> None:
        # Those of the terminal reach the command anyway.
        if number in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH) and _is_in_foreground():
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)


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
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
