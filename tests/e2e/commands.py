"""kubectl, helm and waiting: every call has an end, and a failed one says what it printed."""

import shlex
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


class CommandError(AssertionError):
    """A command failed; the text is what it printed."""


def run(*command: str, input: str | None = None, seconds: float = 60.0) -> str:  # noqa: A002
    """Return what a command prints.

    Raises:
        CommandError: it failed, or took longer than ``seconds``.
    """
    shown = shlex.join(command)
    try:
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{shown}: not within {seconds:g} s") from error
    if done.returncode != 0:
        raise CommandError(f"{shown}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_until(
    ask: Callable[[], Value], holds: Callable[[Value], object], seconds: float, what: str
) -> Value:
    """Ask again and again until the answer is the wanted one, and return it.

    Raises:
        AssertionError: it is not, in ``seconds``; the text has the last answer.
    """
    deadline = time.monotonic() + seconds
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; last: {answer!r}"
        time.sleep(0.3)
    return answer
