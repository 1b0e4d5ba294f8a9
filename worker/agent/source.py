"""Which file holds the code that a command runs."""

import re
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from worker.agent.python import is_python

# Python's options of one letter: flags, and in the end perhaps one that takes a value.
_OPTIONS = re.compile(r"-[bBdEhiIOPqRsSuvVx]*([cmWX]?)(.*)", re.DOTALL)
# Where code lies that was installed, not written for a run.
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def find_source(command: Sequence[str], folder: Path) -> Path | None:
    """Return the file that a command in a folder runs; None where that cannot be told.

    That is a Python's script or module, or the program itself where it is named by its path. What
    is installed only starts the code: the first file that is named then, as in ``bash train.sh``
    or ``python -m torch.distributed.run train.py``.
    """
    program, *words = command
    if is_python(program):
        return _python_source(words, folder)
    if "/" not in program:
        return _first_file(words, folder)
    found = _existing(folder / program)
    starts_code = found is not None and _is_installed_program(found)
    return (_first_file(words, folder) if starts_code else None) or found


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
    found = None
    for name in module.split("."):
        found = PathFinder.find_spec(name, places)
        places = list(found.submodule_search_locations or ()) if found else []
    if places:  # a package: its __main__ is run
        found = PathFinder.find_spec("__main__", places)
    if found is None or found.origin is None:
        return None
    origin = Path(found.origin)
    if _INSTALLED & set(origin.parts) or origin.is_relative_to(_STANDARD_LIBRARY):
        return None
    return _existing(origin)


def _first_file(words: Sequence[str], folder: Path) -> Path | None:
    return next((found for word in words if (found := _existing(folder / word))), None)


def _is_installed_program(path: Path) -> bool:
    """Return whether a program lies where installing puts it, such as an environment's torchrun."""
    return path.parent.name == "bin" and (path.parent.parent / "lib").is_dir()


def _existing(path: Path) -> Path | None:
    try:
        return path.resolve() if path.is_file() else None
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return None
