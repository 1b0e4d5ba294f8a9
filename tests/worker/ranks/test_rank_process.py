"""Command-line options of a task, and its exit code and error messages."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from mlbench.benchmarks.options import Options
from mlbench_worker.ranks import rank_process
from tests.support.processes import run_text


@dataclass(frozen=True)
class Config(Options):
    """Train something somewhere."""

    device: Literal["cpu", "cuda"] = "cuda"
    """The device."""
    learning_rate: float = 0.1
    """Step size, 100 % of it."""
    epochs: int = 3
    """How often."""
    fast: bool = True
    """Whether to hurry."""

    def _rules(self) -> dict[str, bool]:
        needs = not self.fast or self.device == "cuda"
        return super()._rules() | {"fast needs device=cuda": needs}


@pytest.mark.parametrize(
    ("argv", "chosen"),
    [
        ([], Config()),
        (["--learning-rate", "0.5", "--epochs", "7"], Config(learning_rate=0.5, epochs=7)),
        (["--learning_rate=0.5", "--epochs=7"], Config(learning_rate=0.5, epochs=7)),
        (["--device=cpu", "--fast", "false"], Config(device="cpu", fast=False)),
    ],
)
def test_options_have_several_spellings(argv: list[str], chosen: Config) -> None:
    assert rank_process.parse(Config, argv) == chosen


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--speed", "1"], "unknown option --speed; the options are --device, --learning-rate, "),
        (["--epoch", "1"], "unknown option --epoch;"),
        (["stray"], "unknown option stray;"),
        (["--epochs", "many"], "--epochs must be a whole number (got 'many')"),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--device=cpu"], "--fast needs device=cuda"),
        (["--device=tpu"], "--device must be cpu or cuda (got 'tpu')"),
    ],
)
def test_an_invalid_option_exits_with_2_and_a_message(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        rank_process.parse(Config, argv)
    assert exited.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert "--learning-rate" in told, "the message lacks the known options"


def test_the_help_of_an_option_is_the_docstring_of_its_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exited:
        rank_process.parse(Config, ["--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert "Train something somewhere." in text
    assert "Step size, 100 % of it. (default: 0.1)" in text
    assert "Whether to hurry. (default: true)" in text


_TASK = """
import atexit
from dataclasses import dataclass
from mlbench import MLBenchError
from mlbench.benchmarks.options import Options
from mlbench_worker.ranks.rank_process import run

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
        (["--by=9"], 1, "", "MLBenchError: nine is too much"),
        (["--by=x"], 2, "", "error: --by must be a whole number (got 'x')"),
    ],
)
def test_the_exit_code_shows_the_outcome(
    argv: list[str], code: int, out: str, last_error: str, tmp_path: Path
) -> None:
    task = tmp_path / "task.py"
    task.write_text(_TASK)
    done = run_text([sys.executable, task, *argv])
    assert (done.returncode, done.stdout) == (code, out)
    assert last_error in (done.stderr.splitlines() or [""])[-1]
    # An MLBenchError is reported by its message only.
    assert ("Traceback" in done.stderr) == ("ZeroDivision" in last_error)
