"""A task's process ends at once, with all that it said and a code that tells how it went."""

import subprocess
import sys
from pathlib import Path

import pytest

_TASK = """
import atexit
from dataclasses import dataclass
from mlbench import MLBenchError
from worker.training.entry import run
from worker.training.options import Options

@dataclass(frozen=True)
class Config(Options):
    '''Divide.'''
    by: int = 1
    '''What to divide by.'''

def main(config: Config) -> None:
    if config.by == 9:
        raise MLBenchError("nine is too much")
    atexit.register(print, "the interpreter is taken down")
    print("divided:", 1 / config.by)

run(main, Config)
"""


@pytest.mark.parametrize(
    ("argv", "code", "out", "last_error"),
    [
        ([], 0, "divided: 1.0\n", ""),
        (["--by=0"], 1, "", "ZeroDivisionError: division by zero"),
        (["--by=x"], 2, "", "error: argument --by: invalid int value: 'x'"),
    ],
)
def test_the_exit_code_tells_how_it_went(
    argv: list[str], code: int, out: str, last_error: str, tmp_path: Path
) -> None:
    task = tmp_path / "task.py"
    task.write_text(_TASK)
    done = subprocess.run(
        [sys.executable, task, *argv], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert last_error in (done.stderr.splitlines() or [""])[-1]


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(_TASK)
    done = subprocess.run(
        [sys.executable, task, "--by=9"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "MLBenchError: nine is too much\n",
    )
