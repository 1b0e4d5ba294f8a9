"""The software of a rank: the source file of its command, the repository, Python's packages."""

import ast
import contextlib
import hashlib
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
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.records import GitState

_MAX_ANSWER_BYTES = 1 << 20
# Parsing this much code takes 0.1 s, which delays the start of a run. Further modules do not count.
_MAX_CODE_BYTES = 256 << 10
# The digest distinguishes the versions of one file, so 48 bits are enough.
_DIGEST_DIGITS = 12
# Prints Python's version and packages. If several have the same name, the first one counts, as for
# an import. The modification times of the folders show later installations.
_QUESTION = """
import importlib.metadata, json, os, platform, sys
packages = {}
for distribution in importlib.metadata.distributions():
    name, version = distribution.metadata["Name"], distribution.version
    if name and version:
        packages.setdefault(name, version)
print(json.dumps({
    "version": platform.python_version(),
    "packages": packages,
    "changed": {path: os.stat(path).st_mtime for path in sys.path if os.path.exists(path)},
}))
"""
# Python's options of one letter: flags, then perhaps an option with a value.
_OPTIONS = re.compile(r"-[bBdEhiIOPqRsSuvVx]*([cmWX]?)(.*)", re.DOTALL)
_OWN_CODE = Path(__file__).parents[1]
# A script that a shell script runs.
_SCRIPT = re.compile(rb"[\w./-]+\.(?:py|sh)\b")
# The repository may belong to another user, as in many containers; its code is run anyway. Its
# lock is not taken, and no monitor of its files is started.
_GIT = "git --no-optional-locks --literal-pathspecs -c safe.directory=* -c core.fsmonitor=false"


def find_source(command: Sequence[str], folder: Path) -> Path | None:
    """Return the source file of a command in a folder; None if it cannot be determined.

    The source is Python's script or module, or the program itself if the command contains its path.
    For an installed program, it is the first file among the arguments, as in ``bash train.sh`` or
    ``python -m torch.distributed.run train.py``.
    """
    program, *words = command
    if _is_python(program):
        return _python_source(words, folder)
    if "/" not in program:
        return _first_file(words, folder)
    source = _existing(folder / program)
    # An installed program, such as an environment's torchrun, is in bin, next to lib.
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
    """Return the file of a module, without importing it; None for installed modules."""
    places = [str(folder), *sys.path]
    source = None
    for name in module.split("."):
        source = PathFinder.find_spec(name, places)
        places = list(source.submodule_search_locations or ()) if source else []
    if places:  # the command runs the __main__ of a package
        source = PathFinder.find_spec("__main__", places)
    if source is None or source.origin is None:
        return None
    origin = Path(source.origin)
    installed = {"site-packages", "dist-packages"} & set(origin.parts)
    in_library = origin.is_relative_to(sysconfig.get_path("stdlib"))
    return None if installed or in_library else _existing(origin)


def _first_file(words: Sequence[str], folder: Path) -> Path | None:
    return next(filter(None, (_existing(folder / word) for word in words)), None)


def _existing(path: Path) -> Path | None:
    try:
        return path.resolve() if path.is_file() else None
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return None


def code_version(source: Path | None, folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the name of a command's source file and a digest of its code.

    None without a file, for a notebook, and for an official task, whose version is MLBench's.

    The code is the file and the modules that it imports, directly or not, from its folder, or from
    the folder that contains its package. Code that is not Python, such as a shell script, comes
    with the scripts that it names. $MLBENCH_HIDE_COMMAND hides the name.
    """
    # A notebook changes with its output.
    if source is None or source.suffix == ".ipynb" or source.is_relative_to(_OWN_CODE):
        return None
    digest, space = hashlib.sha256(), _MAX_CODE_BYTES
    files = {source: _import_folders(source)}
    unread = [source]
    for file in unread:  # grows meanwhile
        try:
            with file.open("rb") as stream:
                code = stream.read(space)
        except OSError:
            continue
        space -= len(code)
        digest.update(hashlib.sha256(code).digest())
        for other, folders in _used_files(code, file, files[file], folder):
            if other not in files:
                files[other] = folders
                unread.append(other)
    name = "hidden" if names.ENV_HIDE_COMMAND in environ else source.name
    return f"{name.encode(errors='replace').decode()} {digest.hexdigest()[:_DIGEST_DIGITS]}"


def _import_folders(script: Path) -> Sequence[Path]:
    """Return the folders of its own code that a script imports from."""
    outside = (folder for folder in script.parents if not (folder / "__init__.py").is_file())
    return script.parent, next(outside, script.parent)


def _used_files(
    code: bytes, file: Path, folders: Sequence[Path], working_folder: Path
) -> Iterator[tuple[Path, Sequence[Path]]]:
    """Yield what Python code imports from some folders, or the scripts that other code names.

    Each comes with the folders that it imports from.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They would appear in the output of the user's job.
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Not Python, or another version of it.
        for name in _SCRIPT.findall(code):
            if script := _first_file([name.decode()], working_folder):
                yield script, _import_folders(script)
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                places, modules = folders, [alias.name for alias in node.names]
            case ast.ImportFrom():
                places = file.parents[node.level - 1 : node.level] if node.level else folders
                start = f"{node.module}." if node.module else ""
                modules = [start + alias.name for alias in node.names]
            case _:
                continue
        for place in places:
            for module in modules:
                path = place
                for part in module.split("."):
                    path /= part
                    candidates = (path / "__init__.py", path.with_name(f"{part}.py"))
                    yield from (
                        (module, folders) for module in map(_existing, candidates) if module
                    )


def git_state(source: Path | None, environ: Mapping[str, str]) -> GitState | None:
    """Return the state of the repository that contains a file.

    Without a repository, it is the commit $MLBENCH_GIT_COMMIT, which an image without the history
    can set. None without either.
    """
    commit = environ.get(names.ENV_GIT_COMMIT)
    stated = GitState(commit, dirty=None, root=None) if commit else None
    if source is None:
        return stated
    # Git's variables would select another repository, for example one whose hook runs this process.
    own_environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}

    def git(*arguments: str) -> str | None:
        answer = ask([*_GIT.split(), *arguments], source.parent, own_environ, 3.0)
        return None if answer is None else answer.decode(errors="replace").strip()

    place = git("rev-parse", "HEAD", "--show-toplevel")
    if place is None:
        return stated
    commit, _, root = place.partition("\n")
    # These options override the user's settings for untracked files.
    own = git("status", "--porcelain", "--ignored", "--untracked-files", "--", source.name)
    if own is not None and own.startswith("!!"):
        return stated  # ignored, such as an installed program
    changes = git("status", "--porcelain", "--untracked-files=no")
    return GitState(commit, None if own is None or changes is None else bool(own + changes), root)


@dataclass(frozen=True)
class Python:
    """A Python's version, and the versions of its installed distributions."""

    version: str
    packages: Mapping[str, str]
    changed: Mapping[str, float]
    """Last modification, in Unix seconds, of the folders from which Python imports."""

    @property
    def is_current(self) -> bool:
        """Whether the folders have not changed since."""
        try:
            return all(Path(path).stat().st_mtime == at for path, at in self.changed.items())
        except OSError:
            return False


class Pythons:
    """A cache of Pythons' versions and packages, which take 0.1 s or more to determine."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[str, Python] = {}

    def ask(self, executable: str) -> Python | None:
        """Return a Python's version and packages; None if it does not respond."""
        known = self._known.pop(executable, None)
        if known is None or not known.is_current:
            # Python would count packages in the current folder as installed, so that is "/".
            output = ask([executable, "-c", _QUESTION], Path("/"), self._environ, 5.0)
            try:
                fields = json.loads(output or b"")
                packages = {str(name): str(version) for name, version in fields["packages"].items()}
                known = Python(str(fields["version"]), packages, dict(fields["changed"]))
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                known = None
        if known is not None:
            self._known[executable] = known
        return known


def python_of(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Return the Python at the start of a command, or in the first line of its script.

    For other commands, it is the agent's Python.
    """
    program = _locate(command[0], folder, environ)
    if program is not None and not _is_python(program):
        script, first_line = Path(program), b""
        with contextlib.suppress(OSError):
            if script.is_file():
                with script.open("rb") as file:
                    first_line = file.readline(256)  # Linux's limit
        words = first_line[2:].decode(errors="replace").split() if first_line[:2] == b"#!" else ()
        interpreter = next(filter(_is_python, words), None)
        program = _locate(interpreter, folder, environ) if interpreter else None
    return program or sys.executable


def _is_python(program: str) -> bool:
    # Strict, because a user's script, such as python_train.sh, would be run to ask for its version.
    return re.fullmatch(r"python[0-9.]*t?(-dbg)?", Path(program).name) is not None


def _locate(program: str, folder: Path, environ: Mapping[str, str]) -> str | None:
    if "/" in program:
        return str(folder / program)
    return shutil.which(program, path=environ.get("PATH"))


def ask(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
) -> bytes | None:
    """Return the output of a command, cut at 1 MiB; None if it fails or exceeds ``seconds``.

    Its process group is killed in any case.
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
        answer, ready = b"", select.poll()
        ready.register(process.stdout, select.POLLIN)
        try:
            # Another process may keep the pipe open forever.
            while len(answer) < _MAX_ANSWER_BYTES:
                if not ready.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                    return None
                piece = os.read(process.stdout.fileno(), _MAX_ANSWER_BYTES - len(answer))
                if not piece:
                    break
                answer += piece
            if len(answer) == _MAX_ANSWER_BYTES:
                return answer
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return answer if code == 0 else None
