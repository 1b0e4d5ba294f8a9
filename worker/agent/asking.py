"""Asking another program something, whatever it is: for so long, and for so many bytes."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_LONGEST_ANSWER_BYTES = 1 << 20


def ask(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
) -> bytes | None:
    """Return what a command writes, the beginning of it if that is long.

    None where it fails, or takes longer. It is killed then, with its process group.
    """
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
    with process:
        assert process.stdout is not None
        try:
            answer = _read(process.stdout.fileno(), deadline)
            if len(answer) == _LONGEST_ANSWER_BYTES:
                return answer
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return answer if code == 0 else None


def _read(descriptor: int, deadline: float) -> bytes:
    """Return what comes until the end, or until it is enough.

    Raises:
        TimeoutError: there was more to come. Who keeps the pipe open may never end.
    """
    answer = b""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    while len(answer) < _LONGEST_ANSWER_BYTES:
        if not ready.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            raise TimeoutError
        piece = os.read(descriptor, _LONGEST_ANSWER_BYTES - len(answer))
        if not piece:
            break
        answer += piece
    return answer
