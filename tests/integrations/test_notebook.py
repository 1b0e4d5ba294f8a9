"""``mlbench.record()`` in notebooks run by nbconvert: the last cell determines the run's state."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.support.recorded import at_stack, environ, left_in, run_of, sealed
from tests.support.stacks import losses

pytestmark = pytest.mark.slow

_RECORD = "import mlbench\nmlbench.record()"
_LOG = "t = mlbench.Tracker()\nfor value in (1, 2, 3): t.log(train_loss=value)"
# nbconvert kills a kernel that does not exit within 5 s.
_SLOW_END = "import atexit, time\natexit.register(time.sleep, 60)"
_KILL = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"


def _convert(python: str, user: dict[str, str], folder: Path, *cells: str) -> tuple[int, str, str]:
    """Run a notebook of the cells; return nbconvert's exit code, the output file and stderr."""
    notebook: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    for number, source in enumerate(cells):
        cell = {"cell_type": "code", "id": f"cell-{number}", "source": source, "metadata": {}}
        notebook["cells"].append(cell | {"outputs": [], "execution_count": None})
    (folder / "learn.ipynb").write_text(json.dumps(notebook))
    convert = [python, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "learn.ipynb"]
    process = subprocess.run(
        [*convert, "--output", "out.ipynb"],
        env=user,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    out = folder / "out.ipynb"
    return process.returncode, out.read_text() if out.exists() else "", process.stderr


@pytest.mark.parametrize("last", ["", _SLOW_END, "try: 1 / 0\nexcept ZeroDivisionError: pass"])
def test_a_run_finishes_if_the_last_cell_succeeds(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path, last: str
) -> None:
    user = at_stack(stack, tmp_path)
    code, outputs, words = _convert(integrations, user, tmp_path, _RECORD, _LOG, last)
    assert code == 0, words
    ended = sealed(client, run_of(client, words))
    assert (ended.state, ended.reason) == ("FINISHED", "")
    assert (ended.title, ended.launcher, ended.command) == (
        "learn.ipynb",
        "notebook",
        "learn.ipynb",
    )
    assert losses(client, ended) == [1, 2, 3]
    assert f"/runs/{ended.id}</a>" in outputs
    assert left_in(user) == []


@pytest.mark.parametrize(
    ("last", "reason"),
    [("1 / 0", "ZeroDivisionError: division by zero"), (_KILL, "without a word")],
)
def test_a_run_fails_if_the_last_cell_fails(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path, last: str, reason: str
) -> None:
    user = at_stack(stack, tmp_path)
    code, _, words = _convert(integrations, user, tmp_path, _RECORD, _LOG, last)
    assert code != 0
    ended = sealed(client, run_of(client, words))
    assert (ended.state, losses(client, ended)) == ("FAILED", [1, 2, 3])
    assert reason in ended.reason


def test_a_notebook_without_a_master_shows_the_folder(integrations: str, tmp_path: Path) -> None:
    user = environ(tmp_path, "", "")
    code, outputs, words = _convert(integrations, user, tmp_path, f"{_RECORD};", _LOG)
    assert code == 0, words
    [folder] = left_in(user)
    assert f"learn.ipynb is recorded: {folder}" in outputs
