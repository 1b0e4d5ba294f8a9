"""Files that are replaced in one step, so that nobody reads half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a draft that replaces a file in one step at the end, and is deleted after an error."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        draft.replace(path)
    finally:
        # Also on a full disk, where an incomplete draft would use space.
        draft.unlink(missing_ok=True)


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a reader sees the old text or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, mode) as file:
        file.write(text.encode())


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by this user alone (mode 0600)."""
    write_atomically(path, text, mode=0o600)
