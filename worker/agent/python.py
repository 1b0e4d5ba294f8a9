"""What a Python has installed, as it says itself: the agent's own, or another that a run uses."""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.agent.asking import ask

# As importing does, the first of several of the same name counts. Its folders tell by their time
# of change whether anything was installed since.
_QUESTION = """
import importlib.metadata, json, os, platform, sys
packages = {}
for found in importlib.metadata.distributions():
    name, version = found.metadata["Name"], found.version
    if name and version:
        packages.setdefault(name, version)
print(json.dumps({
    "version": platform.python_version(),
    "packages": packages,
    "changed": {path: os.stat(path).st_mtime for path in sys.path if os.path.exists(path)},
}))
"""
_PATIENCE_SECONDS = 5.0
# No other name: asking a script of somebody's own, such as python_train.sh, would run it.
_PYTHON = re.compile(r"python[0-9.]*t?(-dbg)?")
# As Linux reads it.
_LONGEST_INTERPRETER = 256


@dataclass(frozen=True)
class Python:
    """A Python's version, and its installed distributions with theirs."""

    version: str
    packages: Mapping[str, str]
    changed: Mapping[str, float]
    """When the folders that it imports from were changed last, in Unix seconds."""

    @property
    def is_current(self) -> bool:
        """Whether nothing was installed or removed since."""
        try:
            return all(Path(path).stat().st_mtime == at for path, at in self.changed.items())
        except OSError:
            return False


class Pythons:
    """Knows the Pythons that were asked already: asking takes 0.1 s or more."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[str, Python] = {}

    def ask(self, executable: str) -> Python | None:
        """Return what a Python says; None where it does not answer."""
        known = self._known.get(executable)
        if known is not None and known.is_current:
            return known
        found = _ask(executable, self._environ)
        if found is not None:
            self._known[executable] = found
        return found


def python_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Return the Python that a command begins with, or that the script which it begins with names.

    The agent's own for any other command.
    """
    program = _locate(command[0], folder, environ)
    if program is not None and not is_python(program):
        named = next(filter(is_python, _interpreter(Path(program))), None)
        program = _locate(named, folder, environ) if named else None
    return program or sys.executable


def is_python(program: str) -> bool:
    """Return whether a program is a Python, by its name."""
    return _PYTHON.fullmatch(Path(program).name) is not None


def _locate(program: str, folder: Path, environ: Mapping[str, str]) -> str | None:
    if "/" in program:
        return str(folder / program)
    return shutil.which(program, path=environ.get("PATH"))


def _interpreter(program: Path) -> Sequence[str]:
    """Return the words after a script's ``#!``, such as those of an environment's torchrun."""
    try:
        if not program.is_file():
            return ()
        with program.open("rb") as file:
            first = file.readline(_LONGEST_INTERPRETER)
    except OSError:
        return ()
    return first.removeprefix(b"#!").decode(errors="replace").split() if first[:2] == b"#!" else ()


def _ask(executable: str, environ: Mapping[str, str]) -> Python | None:
    # In a folder of no code: what lies in the current one would count as installed.
    answer = ask([executable, "-c", _QUESTION], Path("/"), environ, _PATIENCE_SECONDS)
    try:
        found = Python(**json.loads(answer or b""))
        return Python(str(found.version), _texts(found.packages), dict(found.changed))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _texts(packages: Mapping[str, str]) -> dict[str, str]:
    return {str(name): str(version) for name, version in packages.items()}
