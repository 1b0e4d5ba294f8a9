"""Finds the process at the client's end of a local TCP connection, and its user."""

import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlbench.contract.process import ProcessRank
from mlbench_sources import sock_diag
from mlbench_sources.sock_diag import Address
from mlbench_worker.agent.process_lookup import MAX_PROCESSES, descendants, has_open, other_process


def caller(client: Address, server: Address, root: int | None = None) -> ProcessRank | None:
    """Return the process that is connected to a server; None for the worker's own rank.

    The process is ``root`` or a descendant of it, or by default a descendant of the agent.
    """
    # The kernel's lists of children and connections may miss an entry while others end.
    looks = (find_pid(client, server, root) for _ in range(3))
    pid = next(filter(None, looks), None)
    return other_process(pid) if pid else None


def find_pid(client: Address, server: Address, root: int | None) -> int | None:
    """Return the process id of the caller; None if the lists do not show it now."""
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
