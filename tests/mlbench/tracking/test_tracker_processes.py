"""The tracker in processes and threads: its imports, and recorded values after a kill."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mlbench import Tracker
from mlbench.contract import names
from tests.support.metrics_file import lines, metrics
from tests.support.processes import run_text

_HTTP_AND_MORE = ("httpx", "prometheus_client", "rich", "typer", "numpy", "torch")


def run_python(code: str, environ: dict[str, str] | None = None, folder: Path | None = None) -> str:
    """Run code in a process that is not part of a run; return its output."""
    ours = {name for key, name in vars(names).items() if key.startswith("ENV_")}
    clean = {key: value for key, value in os.environ.items() if key not in ours}
    given = {**clean, **(environ or {})}
    return run_text([sys.executable, "-c", code], env=given, cwd=folder, check=True).stdout


def test_the_tracker_imports_no_unneeded_packages(tmp_path: Path, path: Path) -> None:
    code = (
        "import sys; from mlbench import Tracker\n"
        "with Tracker() as t:\n"
        "    t.goal('acc', 1.0); t.epoch(0)\n"
        "    with t.phase('forward'): pass\n"
        "    t.step(samples=8, train_loss=0.5); t.log({'acc': 2.0}, step=t.steps)\n"
        f"print([m for m in {_HTTP_AND_MORE} if m in sys.modules], t.steps, t.goal_reached)"
    )
    assert run_python(code, folder=tmp_path) == "[] 1 True\n"
    assert list(tmp_path.iterdir()) == [], "nothing must be recorded outside a run"
    assert run_python(code, {names.ENV_METRICS_FILE: str(path)}) == "[] 1 True\n"
    assert len(lines(path)) == 5


def test_a_process_killed_after_a_step_loses_nothing(path: Path) -> None:
    code = (
        "import os; from mlbench import Tracker\n"
        "t = Tracker(); t.epoch(0)\n"
        "for i in range(200): t.step(samples=1, train_loss=i)\n"
        "os.kill(os.getpid(), 9)"
    )
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run_python(code, {names.ENV_METRICS_FILE: str(path)})
    assert failure.value.returncode == -signal.SIGKILL
    assert [line["step"] for line in lines(path)] == list(range(201))


def test_a_script_that_raises_records_its_totals_once(path: Path) -> None:
    # A forked process does not record totals.
    code = (
        "import os, sys; from mlbench import Tracker\n"
        "t = Tracker(); t.step(samples=8)\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait(); raise ValueError"
    )
    with pytest.raises(subprocess.CalledProcessError):
        run_python(code, {names.ENV_METRICS_FILE: str(path)})
    assert [line[names.SAMPLES] for line in metrics(path)] == [8]


def test_threads_may_log_while_phases_are_timed(path: Path) -> None:
    tracker = Tracker({names.ENV_METRICS_FILE: str(path)})
    tracker.goal("acc", 1e9)
    ended = threading.Event()

    def evaluate() -> None:
        while not ended.is_set():
            with tracker.phase("evaluation"):
                time.sleep(0.0001)

    def log(value: int) -> None:
        for _ in range(300):
            tracker.log(acc=value)

    evaluator = threading.Thread(target=evaluate)
    loggers = [threading.Thread(target=log, args=(n,)) for n in range(4)]
    for thread in (evaluator, *loggers):
        thread.start()
    for thread in loggers:
        thread.join()
    ended.set()
    evaluator.join()
    values = [line["acc"] for line in metrics(path)]
    assert sorted(values) == sorted([0.0, 1.0, 2.0, 3.0] * 300)
