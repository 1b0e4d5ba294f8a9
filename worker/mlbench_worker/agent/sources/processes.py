"""The processes of a worker's run, as the kernel tells: who has a file or a connection open."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlbench.contract.process import Process, of_worker, this_process
from mlbench_worker.agent.files import text_of
from mlbench_worker.agent.sources import sock_diag
from mlbench_worker.agent.sources.sock_diag import Address

MOST_PROCESSES = 1024
_MOST_OPEN_FILES = 256
_LOOKS = 3
# In the lines of /proc/net/tcp, as proc_net(5) has them.
_USER, _INODE = 7, 9


def children(pid: int | str = "self") -> Iterator[int]:
    """Yield the children of a process; by default the agent's."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        yield from map(int, text_of(path).split())


def descendants(pid: int | None = None) -> Iterator[int]:
    """Yield the processes that descend from one; by default from the agent."""
    for child in children(pid or "self"):
        yield child
        yield from descendants(child)


def environ_of(pid: int) -> dict[str, str]:
    """Return the environment that a process began with; an empty one if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        return dict(part.partition("=")[::2] for part in text.split("\0"))
    return {}


def other_process(pid: int) -> Process | None:
    """Return which of its run's processes one is, where its rank is not its worker's."""
    environ = environ_of(pid)
    process = this_process(environ)
    return process if process != of_worker(environ) else None


def state_of(pid: int) -> str:
    """Return the kernel's letter for a process's state; X if it is gone."""
    return text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].strip()[:1] or "X"


def is_python(pid: int) -> bool:
    """Check whether a process, which may have ended, runs a program of a Python."""
    with suppress(OSError):
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    return False


def has_open(pid: int, path: Path) -> bool:
    """Check whether a process has a file open."""
    places: Iterable[os.DirEntry[str]] = islice(entries(Path(f"/proc/{pid}/fd")), _MOST_OPEN_FILES)
    for entry in places:
        with suppress(OSError):
            if Path(entry.path).readlink() == path:
                return True
    return False


def files_written_by(pid: int, prefix: str) -> Iterator[Path]:
    """Yield the files with a prefix of their names that a process has open for writing."""
    for entry in islice(entries(Path(f"/proc/{pid}/fd")), _MOST_OPEN_FILES):
        with suppress(OSError):
            path = Path(entry.path).readlink()
            # The link has the permissions of the descriptor.
            mode = entry.stat(follow_symlinks=False).st_mode if path.name.startswith(prefix) else 0
            if mode & stat.S_IWUSR:
                yield path


def all_pids() -> list[int]:
    """Return the numbers of the machine's processes."""
    with os.scandir("/proc") as found:
        return [int(entry.name) for entry in found if entry.name.isdecimal()]


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder; nothing if it cannot be read."""
    with suppress(OSError), os.scandir(folder) as found:
        yield from found


def caller(client: Address, server: Address, root: int | None = None) -> Process | None:
    """Return the process that is connected to a server, where its rank is not its worker's.

    It descends from ``root``, by default from the agent, or is that.
    """
    # The kernel lists children and connections without a lock: while others end, one is left out.
    looks = (_holder(client, server, root) for _ in range(_LOOKS))
    pid = next(filter(None, looks), None)
    return other_process(pid) if pid else None


def _holder(client: Address, server: Address, root: int | None) -> int | None:
    inodes: dict[str, str] = {}
    if sock_diag.is_available():
        found = sock_diag.find(client, server)
        inodes[_network_of("thread-self")] = str(found.inode) if found and found.inode else ""
    for pid in islice([root, *descendants(root)] if root else descendants(), MOST_PROCESSES):
        inode = _inode(client[1], pid, inodes)
        if inode and has_open(pid, Path(f"socket:[{inode}]")):
            return pid
    return None


def is_of_another_user(client: Address, server: Address) -> bool:
    """Tell if a client in the agent's own network is of neither its user nor root."""
    if sock_diag.is_available():
        found = sock_diag.find(client, server)
        return found is not None and found.uid not in (os.geteuid(), 0)
    try:
        table = Path("/proc/thread-self/net/tcp").read_text()
    except OSError:
        return False
    user = _field_in(table, client[1], _USER)
    return user != "" and int(user) not in (os.geteuid(), 0)


def _network_of(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _inode(port: int, pid: int, inodes: dict[str, str]) -> str:
    """Return the inode of a port's socket in a process's network; "" if it is not there.

    ``inodes`` has those of the networks that were looked at.
    """
    with suppress(OSError):
        network = _network_of(pid)
        if network not in inodes:
            table = Path(f"/proc/{pid}/net/tcp").read_text()
            inodes[network] = _field_in(table, port, _INODE)
        return inodes[network]
    return ""


def _field_in(table: str, port: int, field: int) -> str:
    # Of thousands of lines, one is split.
    line = re.search(rf"^ *\d+: [0-9A-F]+:{port:04X} .*", table, re.MULTILINE)
    return line[0].split()[field] if line else ""
