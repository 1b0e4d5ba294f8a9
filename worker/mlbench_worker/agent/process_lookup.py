"""The processes of a worker's run, and the files that they have open."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlbench.contract.process import ProcessRank, of_worker, this_process
from mlbench_worker.agent.stream_files import text_of

MAX_PROCESSES = 1024
MAX_OPEN_FILES = 16384  # of one process; reading them takes about 30 ms


def children(pid: int | str = "self") -> Iterator[int]:
    """Yield the children of a process; by default the agent's."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, text_of(path).split())


def descendants(pid: int | None = None) -> Iterator[int]:
    """Yield the descendants of a process; by default the agent's."""
    for child in children(pid or "self"):
        yield child
        yield from descendants(child)


def environ_of(pid: int) -> dict[str, str]:
    """Return the initial environment of a process; {} if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        return dict(part.partition("=")[::2] for part in text.split("\0"))
    return {}


def other_process(pid: int) -> ProcessRank | None:
    """Return the place of a process in its run; None for the worker's own rank."""
    environ = environ_of(pid)
    process = this_process(environ)
    return process if process != of_worker(environ) else None


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process's state; X if it has ended."""
    return text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].strip()[:1] or "X"


def is_python(pid: int) -> bool:
    """Check whether a process runs Python; False if it has ended."""
    with suppress(OSError):
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    return False


def has_open(pid: int, path: Path) -> bool:
    """Check whether a process has a file open."""
    places: Iterable[os.DirEntry[str]] = islice(entries(Path(f"/proc/{pid}/fd")), MAX_OPEN_FILES)
    for entry in places:
        with suppress(OSError):
            if Path(entry.path).readlink() == path:
                return True
    return False


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; nothing if it cannot be read."""
    with suppress(OSError), os.scandir(folder) as listing:
        yield from listing
