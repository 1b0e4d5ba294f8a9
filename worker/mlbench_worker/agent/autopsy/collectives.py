"""The collectives of a rank, as PyTorch's flight recorder tells them at a private socket.

``hook/sitecustomize.py`` has each process with a process group listen. What answers needs no
interpreter. Of gloo's collectives the recorder never knows a state, but whether they are over.
"""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlbench.contract.autopsy import Collective
from mlbench_worker.agent.files import read_regular

# One for all backends but NCCL, and NCCL's, which other builds lack.
_HANDLERS = ("fr_trace_json", "dump_nccl_trace_json")
_DEFAULT_GROUP = "0"
_TIMEOUT_SECONDS = 1.0
_MOST_BYTES = 16 << 20
_MOST_SOCKETS = 16
_NO_TRACE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_MOST_GROUPS, _MOST_SIZES, _LONGEST_NAME = 64, 16, 100


def find_collectives(
    folder: Path, ranks: Mapping[int, int] = MappingProxyType({})
) -> tuple[Collective, ...]:
    """Return the last collective of each process group, the default group's first.

    Of several processes that tell of one group, it is that of the last, for each of their
    ``ranks``. None are found where no process has a group, or none answers.
    """
    last: dict[tuple[int | None, str], Collective] = {}
    sockets = [path for path in folder.glob("[0-9]*") if not path.suffix]
    for path in sockets[:_MOST_SOCKETS]:
        rank = ranks.get(int(path.name)) if path.name.isdecimal() else None
        for collective in _collectives_at(path):
            before = last.setdefault((rank, collective.group), collective)
            if collective.number <= before.number:
                last[rank, collective.group] = replace(collective, rank=rank)
    in_order = sorted(last.values(), key=lambda entry: (len(entry.group), entry.group))
    return tuple(in_order[:_MOST_GROUPS])


def left_collectives(folder: Path) -> tuple[Collective, ...]:
    """Return those that a process has left as it failed; of several processes, the last one."""
    with suppress(OSError, *_NO_TRACE):
        newest = max(folder.glob("[0-9]*.json"), key=lambda path: path.stat().st_mtime)
        return tuple(read_trace(json.loads(read_regular(newest, _MOST_BYTES) or b"")))
    return ()


def _collectives_at(path: Path) -> Iterator[Collective]:
    for handler in _HANDLERS:
        try:
            yield from read_trace(_ask(path, handler))
        except OSError:
            return  # A process that does not answer now, as a stopped one, never does.
        except (http.client.HTTPException, *_NO_TRACE):
            pass  # Whatever answers there.


def read_trace(trace: Mapping[str, Any]) -> list[Collective]:
    """Return the last collective of each group in what a recorder tells.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it is something else.
    """
    last: dict[str, Mapping[str, Any]] = {}
    for entry in trace.get("entries", []):
        if not entry["is_p2p"]:
            last[str(entry["process_group"][0])] = entry
    entered = {
        str(group): int(status["last_enqueued_collective"])
        for group, status in trace["pg_status"].items()
    }
    numbers = {_DEFAULT_GROUP: 0, **entered}
    return [_collective(group, number, last.get(group, {})) for group, number in numbers.items()]


def _collective(group: str, number: int, entry: Mapping[str, Any]) -> Collective:
    is_known = entry.get("collective_seq_id") == number
    sizes = entry["input_sizes"] if is_known else []
    return Collective(
        group[:_LONGEST_NAME],
        max(0, number),
        str(entry["profiling_name"])[:_LONGEST_NAME] if is_known else "",
        tuple(tuple(map(int, size[:_MOST_SIZES])) for size in sizes[:_MOST_SIZES]),
        bool(entry["retired"]) if is_known else True,
    )


def _ask(path: Path, handler: str) -> Any:
    with closing(Connection(path)) as connection:
        connection.request("POST", f"/handler/{handler}")
        return json.loads(connection.getresponse().read(_MOST_BYTES))


class Connection(http.client.HTTPConnection):
    """A connection to the server of PyTorch in a process, at its socket."""

    def __init__(self, path: Path, timeout: float = _TIMEOUT_SECONDS) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect, or raise an OSError."""
        # A socket's path is short, the folder's may be long.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)
