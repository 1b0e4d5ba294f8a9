"""What a page of the documentation tells its reader to do: type commands, and change files."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mlbench.contract.names import ENV_HOME
from mlbench.local.home import Home
from tests.support.processes import run_text


def environ_of(stack: Home) -> Mapping[str, str]:
    """Return the variables of a terminal in which ``mlbench`` is on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, ENV_HOME: str(stack.root)}


def type_in(commands: str, folder: Path, stack: Home) -> str:
    """Run commands in a shell, and return them with what they printed."""
    done = run_text(["bash", "-eu"], input=commands, cwd=folder, env=environ_of(stack))
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return f"$ {commands}{done.stdout}"


def patch(file: str, diff: str, copy: Path) -> None:
    """Replace what a diff has on lines that begin with " " or "-" by those with " " or "+"."""
    text = (copy / file).read_text()
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] or line for line in lines if line[0] != "+")
        new = "".join(line[1:] or line for line in lines if line[0] != "-")
        assert text.count(old) == 1, f"{file} has this {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    (copy / file).write_text(text)
