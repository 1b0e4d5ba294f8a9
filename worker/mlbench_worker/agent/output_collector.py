"""Packs the files in a rank's ``$MLBENCH_OUTPUT`` once its processes have ended.

The folder may contain anything. Links are not followed, pipes are not opened, and the search is
bounded. Content is read once, so that it always matches its digest.
"""

import hashlib
import os
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mlbench.contract.atomic_files import replacing
from mlbench.contract.humanize import printable
from mlbench.contract.output import (
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_LIST_BYTES,
    OutputFile,
    OutputList,
    is_name,
    sha256_of_start,
)
from mlbench_worker.agent.stream_files import open_regular, read_regular, remove

_MAX_LOOKED_AT = 10_000
"""Maximum number of entries of a folder, and of all folders together, to look at."""
_MAX_DIGESTED_BYTES = 2 << 30
"""Maximum size of files, too large to pack, whose digests are computed: the run's end waits."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def pack(folder: Path, target: Path) -> str:
    """Pack the files of a folder, if there are any, atomically.

    Returns:
        A message about files that were not packed; "" if all were.

    Raises:
        OSError: the folder cannot be read, or the pack cannot be written.
    """
    packer = _Packer()
    top = os.open(folder, _FOLDER)
    try:
        with closing(_walk(top)) as entries:
            for name, file in islice(entries, _MAX_LOOKED_AT):
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
    files_left = sum(bool(file.left) for file in packer.files) + packer.more
    if not files_left:
        return ""
    unlisted = f", of which {packer.more:,} are not even listed" if packer.more else ""
    return f"{files_left:,} files in $MLBENCH_OUTPUT stay where they are{unlisted}"


def clear(folder: Path, packed: Path) -> None:
    """Remove a folder if the pack contains all its files."""
    pack = read_regular(packed, MAX_LIST_BYTES)
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
        self._room = MAX_BYTES
        self._digested = 0

    def add(self, name: str, file: BinaryIO) -> None:
        """Add a file to the pack, or only to its list."""
        if len(self.files) == MAX_FILES:
            self.more += 1
            return
        content = file.read(MAX_FILE_BYTES + 1)
        reason = ""
        if not is_name(name):
            reason = "its name has more than 200 characters, or others than printable ones"
        elif len(content) > MAX_FILE_BYTES:
            reason = f"it has more than {MAX_FILE_BYTES >> 20} MiB"
        elif len(content) > self._room:
            reason = f"more than {MAX_BYTES >> 20} MiB in all"
        if not reason:
            self._room -= len(content)
            self.contents.append(content)
            digest: str | None = hashlib.sha256(content).hexdigest()
            self.files.append(OutputFile(name, len(content), digest))
            return
        before = os.fstat(file.fileno())
        shown = printable(name.replace("\\", "?"))[:200]
        digest = None
        if self._digested + before.st_size > _MAX_DIGESTED_BYTES:
            reason += f"; no digest: more than {_MAX_DIGESTED_BYTES >> 30} GiB in all"
        else:
            self._digested += before.st_size
            digest = sha256_of_start(file, before.st_size)
            after = os.fstat(file.fileno())
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                digest, reason = None, f"{reason}; it changed while it was read"
        self.files.append(OutputFile(shown, before.st_size, digest, reason))


def _walk(
    folder: int, prefix: str = "", depth: int = 0
) -> Generator[tuple[str, BinaryIO | None], None, None]:
    """Yield the entries of a folder by name, each with an open file if it is a regular file.

    ``folder`` is a descriptor, so that the folder cannot be replaced meanwhile.
    """
    with os.scandir(folder) as entries:
        in_order = sorted(islice(entries, _MAX_LOOKED_AT + 1), key=lambda entry: entry.name)
    for entry in in_order:
        name = f"{prefix}{entry.name}"
        if (descriptor := open_regular(Path(entry.name), folder)) is not None:
            with os.fdopen(descriptor, "rb") as file:
                yield name, file
            continue
        yield name, None
        if depth < 8:
            with suppress(OSError):
                inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _walk(inner, f"{name}/", depth + 1)
                finally:
                    os.close(inner)
