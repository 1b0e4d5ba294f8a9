"""What a rank leaves in ``$MLBENCH_OUTPUT``, packed once its processes have ended.

They may have left anything there. Links are not followed, pipes not opened, folders not searched
for ever, and what is packed is what its digest was made of.
"""

import hashlib
import os
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mlbench.contract.output import (
    MOST_BYTES,
    MOST_FILE_BYTES,
    MOST_FILES,
    MOST_LIST_BYTES,
    OutputFile,
    OutputList,
    is_name,
)
from mlbench.local.home import replacing
from mlbench_worker.agent.files import open_regular, read_regular, remove

# Of folders in folders, and of what is looked at in all.
_DEEPEST = 8
_MOST_LOOKED_AT = 10_000
# Of files that stay where they are. A run's end waits for their digests.
_MOST_DIGESTED_BYTES = 2 << 30
_PIECE_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def pack(folder: Path, target: Path) -> str:
    """Pack the files of a folder, if there are any, in one step; return what to say of it.

    Raises:
        OSError: they cannot be read, or the pack cannot be written.
    """
    packer = _Packer()
    top = os.open(folder, _FOLDER)
    try:
        with closing(_walk(top)) as entries:
            for name, file in islice(entries, _MOST_LOOKED_AT):
                if file is not None:
                    packer.add(name, file)
            packer.more += next(entries, None) is not None
    finally:
        os.close(top)
    if not packer.files:
        return ""
    with replacing(target, 0o600) as packed:
        packed.write(OutputList(str(folder), tuple(packer.files), packer.more).line())
        packed.writelines(packer.contents)
    return packer.words()


def clear(folder: Path, packed: Path) -> None:
    """Remove a folder of which the pack has all; what it does not have stays."""
    pack = read_regular(packed, MOST_LIST_BYTES)
    if pack is None:
        with suppress(OSError):
            folder.rmdir()
        return
    with suppress(ValueError):
        listed = OutputList.read(pack)
        if not listed.more and not any(file.left for file in listed.files):
            remove(folder)


class _Packer:
    def __init__(self) -> None:
        self.files: list[OutputFile] = []
        self.contents: list[bytes] = []
        self.more = 0
        self._room = MOST_BYTES
        self._digested = 0

    def add(self, name: str, file: BinaryIO) -> None:
        """Take a file into the pack, or into its list alone."""
        if len(self.files) == MOST_FILES:
            self.more += 1
            return
        content = file.read(MOST_FILE_BYTES + 1)
        left = self._why_left(name, len(content))
        if left:
            self.files.append(self._left(name, file, left))
            return
        self._room -= len(content)
        self.contents.append(content)
        digest = hashlib.sha256(content).hexdigest()
        self.files.append(OutputFile(name, len(content), digest))

    def words(self) -> str:
        """Say what the pack does not have; "" if it has all."""
        left = sum(bool(file.left) for file in self.files) + self.more
        if not left:
            return ""
        listed = f", of which {self.more:,} are not even listed" if self.more else ""
        return f"{left:,} files in $MLBENCH_OUTPUT stay where they are{listed}"

    def _why_left(self, name: str, size: int) -> str:
        if not is_name(name):
            return "its name has more than 200 characters, or others than printable ones"
        if size > MOST_FILE_BYTES:
            return f"it has more than {MOST_FILE_BYTES >> 20} MiB"
        return f"more than {MOST_BYTES >> 20} MiB in all" if size > self._room else ""

    def _left(self, name: str, file: BinaryIO, why: str) -> OutputFile:
        before = os.fstat(file.fileno())
        shown = "".join(c if c.isprintable() and c != "\\" else "?" for c in name)[:200]
        digest = None
        if self._digested + before.st_size > _MOST_DIGESTED_BYTES:
            why += f"; no digest: more than {_MOST_DIGESTED_BYTES >> 30} GiB in all"
        else:
            self._digested += before.st_size
            digest = _digest(file, before.st_size)
            after = os.fstat(file.fileno())
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                digest, why = None, f"{why}; it changed while it was read"
        return OutputFile(shown, before.st_size, digest, why)


def _digest(file: BinaryIO, size: int) -> str:
    """Return the SHA-256 of a file's first bytes."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, _PIECE_BYTES))):
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


def _walk(
    folder: int, prefix: str = "", depth: int = 0
) -> Generator[tuple[str, BinaryIO | None], None, None]:
    """Yield what is in a folder, in order of names, with a file to read where there is one.

    ``folder`` is a descriptor: nothing can put another folder into its place.
    """
    with os.scandir(folder) as entries:
        in_order = sorted(islice(entries, _MOST_LOOKED_AT + 1), key=lambda entry: entry.name)
    for entry in in_order:
        name = f"{prefix}{entry.name}"
        if (descriptor := open_regular(Path(entry.name), folder)) is not None:
            with os.fdopen(descriptor, "rb") as file:
                yield name, file
            continue
        yield name, None
        if depth < _DEEPEST:
            with suppress(OSError):
                inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _walk(inner, f"{name}/", depth + 1)
                finally:
                    os.close(inner)
