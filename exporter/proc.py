"""What /proc tells and psutil does not: who owns each process, and other network namespaces.

Every process of this user is looked at in each scrape, so this reads the files themselves, in
less than half of the time that psutil needs for the same.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.usage import Network
from mlbench import names

PROC = Path("/proc")


@dataclass(frozen=True)
class Owner:
    """The pod that a process belongs to, and the home folder of that pod's stack."""

    home: Path
    pod: str


def read_owners() -> dict[int, Owner]:
    """Return the owner of every process of this user that has one, by process id.

    A process belongs to the pod that its environment names. One whose environment names none
    belongs where its parent does: a zombie has no environment any more, another may hide or
    clear its own. Processes that come or go meanwhile may be missing.
    """
    named: dict[int, Owner] = {}
    parents: dict[int, int] = {}
    for pid in _own_processes():
        owner = _read_named_owner(pid)
        if owner is not None:
            named[pid] = owner
            continue
        try:
            parents[pid] = _read_parent(pid)
        except OSError:  # it is gone
            continue
    return adopt(named, parents)


def named_owner(environment: bytes) -> Owner | None:
    """Return the owner that an environment names, None where it lacks the pod or the home.

    ``environment`` is as /proc/<pid>/environ holds it: ``NAME=value`` entries that end in NUL.
    """
    pod = _variable(environment, names.ENV_POD)
    home = _variable(environment, names.ENV_HOME)
    if not pod or not home:
        return None
    return Owner(Path(home), pod)


def adopt(named: Mapping[int, Owner], parents: Mapping[int, int]) -> dict[int, Owner]:
    """Return the named processes and those, of the others, that descend from one of them.

    ``parents`` holds the parent's id of each process that names no owner.
    """
    owners = dict(named)
    while found := {
        pid: owners[parent]
        for pid, parent in parents.items()
        if pid not in owners and parent in owners
    }:
        owners |= found
    return owners


def read_network(pids: Iterable[int]) -> Network | None:
    """Return the traffic of a pod's network namespace, None where that is the exporter's own.

    A pod's processes share one namespace, so the first that can be asked speaks for all. None
    also where none can be asked.
    """
    own = (PROC / "self" / "ns" / "net").readlink()
    for pid in pids:
        try:
            if (PROC / str(pid) / "ns" / "net").readlink() == own:
                return None
            return parse_network((PROC / str(pid) / "net" / "dev").read_text())
        except OSError:  # it is gone, a zombie, or hidden
            continue
    return None


def parse_network(table: str) -> Network:
    """Return the sum over all interfaces but ``lo``.

    ``table`` is as /proc/<pid>/net/dev holds it (proc_pid_net(5)): two lines of heading, then
    for each interface eight columns received and eight transmitted, bytes first in each.
    """
    received = transmitted = 0
    for line in table.splitlines()[2:]:
        interface, _, figures = line.partition(":")
        if interface.strip() == "lo":
            continue
        columns = figures.split()
        received += int(columns[0])
        transmitted += int(columns[8])
    return Network(received, transmitted)


def _own_processes() -> Iterator[int]:
    """Yield the processes of this user: the environment of others may not be read anyway."""
    user = os.geteuid()
    with os.scandir(PROC) as entries:
        for entry in entries:
            if not entry.name.isdecimal():
                continue
            try:
                owner = entry.stat().st_uid
            except OSError:  # it is gone
                continue
            if owner == user:
                yield int(entry.name)


def _read_named_owner(pid: int) -> Owner | None:
    try:
        return named_owner((PROC / str(pid) / "environ").read_bytes())
    except OSError:  # it is gone, a zombie, or hidden
        return None


def _read_parent(pid: int) -> int:
    # The name, second in the line, stands in brackets and may hold any character.
    stat = (PROC / str(pid) / "stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1])


def _variable(environment: bytes, name: str) -> str | None:
    _, found, rest = (b"\0" + environment).partition(f"\0{name}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None
