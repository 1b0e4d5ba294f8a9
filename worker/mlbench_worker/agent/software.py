"""The software of a rank: the file that a command runs, its repository, its Python's packages."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from io import BytesIO
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.records import GitState

_LONGEST_ANSWER_BYTES = 1 << 20
# As for an import, the first of several of the same name counts. The folders' times of change tell
# whether anything was installed since.
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
_PYTHON_SECONDS = 5.0
# No other names: asking a user's script, such as python_train.sh, would run it.
_PYTHON = re.compile(r"python[0-9.]*t?(-dbg)?")
# As Linux reads it.
_LONGEST_INTERPRETER = 256
# Python's options of one letter: flags, and in the end perhaps one that takes a value.
_OPTIONS = re.compile(r"-[bBdEhiIOPqRsSuvVx]*([cmWX]?)(.*)", re.DOTALL)
# Where code lies that was installed, not written for a run.
_INSTALLED = {"site-packages", "dist-packages"}
_GIT_SECONDS = 3.0
# The repository may belong to another user, as in many containers: its code is about to be run
# anyway. Its lock is left alone, and no monitor of its files is started.
_GIT = "git --no-optional-locks --literal-pathspecs -c safe.directory=* -c core.fsmonitor=false"


def find_source(command: Sequence[str], folder: Path) -> Path | None:
    """Return the file that a command in a folder runs; None if that cannot be told.

    It is a Python's script or module, or the program itself if it is named by its path. An
    installed program only starts the code: then it is the first file that the command names, as in
    ``bash train.sh`` or ``python -m torch.distributed.run train.py``.
    """
    program, *words = command
    if _is_python(program):
        return _python_source(words, folder)
    if "/" not in program:
        return _first_file(words, folder)
    source = _existing(folder / program)
    # Installed, such as an environment's torchrun: it lies in bin, beside lib.
    if source and source.parent.name == "bin" and (source.parent.parent / "lib").is_dir():
        return _first_file(words, folder) or source
    return source


def _python_source(words: Sequence[str], folder: Path) -> Path | None:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        options = _OPTIONS.fullmatch(word)
        if options is None:
            return _existing(folder / word)
        name, value = options.groups()
        if name and not value:
            value = rest.pop(0) if rest else ""
        if name == "c":
            return None
        if name == "m":
            return _module_source(value, folder) or _first_file(rest, folder)
    return None


def _module_source(module: str, folder: Path) -> Path | None:
    """Return the file of a module that is not installed, found without importing anything."""
    places = [str(folder), *sys.path]
    source = None
    for name in module.split("."):
        source = PathFinder.find_spec(name, places)
        places = list(source.submodule_search_locations or ()) if source else []
    if places:  # a package: its __main__ is run
        source = PathFinder.find_spec("__main__", places)
    if source is None or source.origin is None:
        return None
    origin = Path(source.origin)
    installed = _INSTALLED & set(origin.parts)
    in_library = origin.is_relative_to(sysconfig.get_path("stdlib"))
    return None if installed or in_library else _existing(origin)


def _first_file(words: Sequence[str], folder: Path) -> Path | None:
    return next((found for word in words if (found := _existing(folder / word))), None)


def _existing(path: Path) -> Path | None:
    try:
        return path.resolve() if path.is_file() else None
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        return None


def git_state(source: Path | None, environ: Mapping[str, str]) -> GitState | None:
    """Return the state of the repository that a file belongs to.

    Without one, it is the commit $MLBENCH_GIT_COMMIT, which an image can set that has the code
    without its history; without that, None.
    """
    state = _ask_git(source, environ) if source is not None else None
    if state is None and (stated := environ.get(names.ENV_GIT_COMMIT)):
        return GitState(stated, dirty=None, root=None)
    return state


def _ask_git(source: Path, environ: Mapping[str, str]) -> GitState | None:
    # With variables of git's own, it would look at the repository that they name, such as one whose
    # hook has started all this.
    own_environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}

    def git(*arguments: str) -> str | None:
        answer = ask([*_GIT.split(), *arguments], source.parent, own_environ, _GIT_SECONDS)
        return None if answer is None else answer.decode(errors="replace").strip()

    place = git("rev-parse", "HEAD", "--show-toplevel")
    if place is None:
        return None
    commit, _, root = place.partition("\n")
    # Whatever the user's settings are for files that are not tracked.
    own = git("status", "--porcelain", "--ignored", "--untracked-files", "--", source.name)
    if own is not None and own.startswith("!!"):
        return None  # ignored, such as an installed program
    changes = git("status", "--porcelain", "--untracked-files=no")
    return GitState(commit, None if own is None or changes is None else bool(own + changes), root)


@dataclass(frozen=True)
class Python:
    """A Python's version, and its installed distributions with theirs."""

    version: str
    packages: Mapping[str, str]
    changed: Mapping[str, float]
    """When the folders that it imports from were changed last, in Unix seconds."""

    @property
    def is_current(self) -> bool:
        """Whether nothing was installed or removed since then."""
        try:
            return all(Path(path).stat().st_mtime == at for path, at in self.changed.items())
        except OSError:
            return False


class Pythons:
    """Asks Pythons, and remembers their answers: asking takes 0.1 s or more."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[str, Python] = {}

    def ask(self, executable: str) -> Python | None:
        """Return a Python's version and packages; None if it does not answer."""
        known = self._known.pop(executable, None)
        if known is None or not known.is_current:
            known = _ask_python(executable, self._environ)
        if known is not None:
            self._known[executable] = known
        return known


def python_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Return the Python that a command begins with, or that its script's first line names.

    For any other command it is the agent's own.
    """
    program = _locate(command[0], folder, environ)
    if program is not None and not _is_python(program):
        named = next(filter(_is_python, _interpreter(Path(program))), None)
        program = _locate(named, folder, environ) if named else None
    return program or sys.executable


def _is_python(program: str) -> bool:
    return _PYTHON.fullmatch(Path(program).name) is not None


def _locate(program: str, folder: Path, environ: Mapping[str, str]) -> str | None:
    if "/" in program:
        return str(folder / program)
    return shutil.which(program, path=environ.get("PATH"))


def _interpreter(program: Path) -> Sequence[str]:
    """Return the words after a script's ``#!``, such as those of an environment's torchrun."""
    try:
        with program.open("rb") if program.is_file() else BytesIO() as file:
            first = file.readline(_LONGEST_INTERPRETER)
    except OSError:
        return ()
    return first[2:].decode(errors="replace").split() if first[:2] == b"#!" else ()


def _ask_python(executable: str, environ: Mapping[str, str]) -> Python | None:
    # Not in a folder of code: what lies in the current one would count as installed.
    answer = ask([executable, "-c", _QUESTION], Path("/"), environ, _PYTHON_SECONDS)
    try:
        said = json.loads(answer or b"")
        packages = {str(name): str(version) for name, version in said["packages"].items()}
        return Python(str(said["version"]), packages, dict(said["changed"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def ask(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
) -> bytes | None:
    """Return the output of a command, cut if it is long; None if it fails or takes longer.

    In the end it is killed with its process group.
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
            answer = _read_until(process.stdout.fileno(), deadline)
            if len(answer) == _LONGEST_ANSWER_BYTES:
                return answer
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return answer if code == 0 else None


def _read_until(descriptor: int, deadline: float) -> bytes:
    """Read to the end, or until it is enough.

    Raises:
        TimeoutError: the deadline came first. Whoever keeps the pipe open may never close it.
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
