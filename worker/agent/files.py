"""The agent's own files and folders, where commands may have left anything at all."""

import contextlib
import json
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

# Neither is a link followed, nor a writer of a pipe waited for.
_CAREFULLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_JSON_BYTES = 4 << 20


def open_regular(path: Path) -> int | None:
    """Return a descriptor to read a file by; None where there is none, or no regular one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _CAREFULLY)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def read_json(path: Path) -> Any:
    """Return what a file holds.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no regular file, too long, or no JSON.
    """
    descriptor = open_regular(path)
    if descriptor is None:
        if not os.path.lexists(path):
            raise FileNotFoundError(path)
        raise ValueError(f"{path} is no file that can be read")
    with os.fdopen(descriptor, "rb") as file:
        try:
            return json.loads(file.read(_LONGEST_JSON_BYTES))
        except RecursionError:
            raise ValueError(f"{path} is nested too deeply") from None


def write_json(path: Path, content: object) -> None:
    """Replace a file in one step by one that only this user may read.

    Raises:
        OSError: it cannot be written; there is what was there before.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


def own_folder(path: Path) -> None:
    """Make a folder that only this user may enter, also where something else has its place.

    Raises:
        OSError: it cannot be made.
    """
    if os.path.lexists(path) and not _is_folder(path):
        path.unlink()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, or whatever has its place; log what stays.

    What a command leaves behind must not keep the next one from starting.
    """
    try:
        if not _is_folder(path):
            path.unlink()
            return
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():  # as folders of caches may be: nobody may write there
            _let_write(path)
            shutil.rmtree(path)
    except (OSError, RecursionError) as error:
        log.warning("cannot remove %s: %s", path, error)


def _let_write(folder: Path) -> None:
    folder.chmod(0o700)
    for place, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(place, name)
            if _is_folder(inner):
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
