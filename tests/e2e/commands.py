"""Calls of kubectl and Helm with timeouts, whose errors include the output."""

import shlex
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class CommandError(AssertionError):
    """A command failed; the message has its output."""


def run(*command: str, input: str | None = None, seconds: float = 60.0) -> str:  # noqa: A002
    """Run a command and return its stdout.

    Raises CommandError if the command fails or takes longer than ``seconds``.
    """
    line = shlex.join(command)
    try:
        process = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{line}: not within {seconds:g} s") from error
    if process.returncode != 0:
        raise CommandError(
            f"{line}: exit code {process.returncode}\n{process.stdout}{process.stderr}"
        )
    return process.stdout


def wait_until(
    ask: Callable[[], Value], holds: Callable[[Value], object], seconds: float, description: str
) -> Value:
    """Call ``ask`` until ``holds`` accepts its result, and return the result.

    Raises AssertionError with the last result after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, (
            f"not within {seconds:g} s: {description}; last: {answer!r}"
        )
        time.sleep(0.3)
    return answer
