"""The processes of a worker's run, and the files and connections that they have open."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlbench.contract.process import Process, of_worker, this_process
from mlbench_worker.agent import sock_diag
from mlbench_worker.agent.sock_diag import Address
from mlbench_worker.agent.stream_files import text_of

MAX_PROCESSES = 1024
_MAX_OPEN_FILES = 16384  # of one process; reading them takes about 30 ms


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


def other_process(pid: int) -> Process | None:
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
    places: Iterable[os.DirEntry[str]] = islice(entries(Path(f"/proc/{pid}/fd")), _MAX_OPEN_FILES)
    for entry in places:
        with suppress(OSError):
            if Path(entry.path).readlink() == path:
                return True
    return False


def files_written_by(pid: int, prefix: str) -> Iterator[Path]:
    """Yield files that a process has open for writing, whose names begin with ``prefix``."""
    for entry in islice(entries(Path(f"/proc/{pid}/fd")), _MAX_OPEN_FILES):
        with suppress(OSError):
            path = Path(entry.path).readlink()
            # The link has the permissions of the descriptor.
            mode = entry.stat(follow_symlinks=False).st_mode if path.name.startswith(prefix) else 0
            if mode & stat.S_IWUSR:
                yield path


def all_pids() -> list[int]:
    """Return the numbers of the machine's processes."""
    with os.scandir("/proc") as listing:
        return [int(entry.name) for entry in listing if entry.name.isdecimal()]


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; nothing if it cannot be read."""
    with suppress(OSError), os.scandir(folder) as listing:
        yield from listing


def caller(client: Address, server: Address, root: int | None = None) -> Process | None:
    """Return the process that is connected to a server; None for the worker's own rank.

    The process is ``root`` or a descendant of it, or by default a descendant of the agent.
    """
    # The kernel's lists of children and connections may miss an entry while others end.
    looks = (_holder(client, server, root) for _ in range(3))
    pid = next(filter(None, looks), None)
    return other_process(pid) if pid else None


def _holder(client: Address, server: Address, root: int | None) -> int | None:
    inodes: dict[str, str] = {}  # of the client's port, by network
    if sock_diag.is_available():
        holder = sock_diag.find(client, server)
        inodes[_network_of("thread-self")] = str(holder.inode) if holder and holder.inode else ""
    for pid in islice([root, *descendants(root)] if root else descendants(), MAX_PROCESSES):
        inode = ""
        with suppress(OSError):
            network = _network_of(pid)
            if network not in inodes:
                table = Path(f"/proc/{pid}/net/tcp").read_text()
                inodes[network] = _field_in(table, client[1], 9)
            inode = inodes[network]
        if inode and has_open(pid, Path(f"socket:[{inode}]")):
            return pid
    return None


def is_of_another_user(client: Address, server: Address) -> bool:
    """Check whether a client in the agent's network belongs to neither its user nor root."""
    if sock_diag.is_available():
        holder = sock_diag.find(client, server)
        return holder is not None and holder.uid not in (os.geteuid(), 0)
    try:
        table = Path("/proc/thread-self/net/tcp").read_text()
    except OSError:
        return False
    user = _field_in(table, client[1], 7)
    return user != "" and int(user) not in (os.geteuid(), 0)


def _network_of(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _field_in(table: str, port: int, field: int) -> str:
    """Return a field of a port's line in /proc/net/tcp, counted as in proc_net(5)."""
    # Split only the matching line of thousands.
    line = re.search(rf"^ *\d+: [0-9A-F]+:{port:04X} .*", table, re.MULTILINE)
    return line[0].split()[field] if line else ""
