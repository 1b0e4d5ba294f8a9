"""Asking programs that answer at length, late, never, or leave somebody behind."""

import os
import sys
import time
from pathlib import Path

import pytest

from worker.agent.asking import ask

_ENVIRON = {"PATH": os.environ["PATH"]}


def answer(code: str, seconds: float = 20.0) -> bytes | None:
    return ask([sys.executable, "-c", code], Path("/"), _ENVIRON, seconds)


def test_an_answer() -> None:
    assert answer("print('yes')") == b"yes\n"


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "print('yes'); raise SystemExit(1)"])
def test_what_fails_says_nothing(code: str) -> None:
    assert answer(code) is None


def test_what_is_no_program_says_nothing() -> None:
    assert ask(["/none"], Path("/"), _ENVIRON, 1.0) is None
    assert ask(["true"], Path("/none"), _ENVIRON, 1.0) is None


def test_a_long_answer_is_cut() -> None:
    assert answer("while True: print('x' * 1000)") == answer("while True: print('x' * 1000)")
    assert len(answer("while True: print('x' * 1000)") or b"") == 1 << 20


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import os, time; os.close(1); time.sleep(60)",
        # Somebody who holds the pipe open, in a session of its own.
        "import subprocess; subprocess.Popen(['sleep', '20'], start_new_session=True)",
    ],
)
def test_what_does_not_end_is_not_waited_for(code: str) -> None:
    began = time.monotonic()
    assert answer(code, 1.0) is None
    assert time.monotonic() - began < 5
