"""Data that a rank sends after it was lost: kept, marked, and not part of its run's result.

An agent that was silent for a while still has the data that its rank wrote. The samples become
additions to the run, like samples that are posted after its end. Logs and files continue in their
streams. The verdict on the rank stays.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from typing import Any

from mlbench.contract.names import StreamName
from mlbench_master.database.connection import exclusive, run_sql, store
from mlbench_master.database.models import added_owner, find_run, run_owner
from mlbench_master.recording import not_recorded, streams
from mlbench_master.recording.streams import KEY, METRICS, StreamKey

_LARGEST = 2**62
_EXTEND = f"UPDATE stream SET final_size = ? WHERE {KEY} AND final_size < ?"  # noqa: S608


def append(key: StreamKey, offset: int, data: bytes) -> int:
    """Store new samples of a lost rank, and return the offset to send next."""
    begins_at = _held(key)
    new = data[max(0, begins_at - offset) :]
    return begins_at + streams.append(_late(key), max(0, offset - begins_at), new)


def extend(key: StreamKey, size: int) -> None:
    """Let the closed log, or the closed files, of a lost rank grow to a size."""
    size = min(size, _LARGEST)
    with exclusive(key.owner):
        run_sql(_EXTEND, size, *astuple(key), size)


def end(run_id: int, attempt: int, rank: int, sizes: Mapping[StreamName, int]) -> None:
    """Set the final size of a lost rank's late samples once its process has ended."""
    key = StreamKey(run_owner(run_id), attempt, rank, METRICS)
    size = max(0, sizes.get("metrics", 0) - _held(key))
    late = _late(key)
    with exclusive(late.owner):
        streams.close_one(late, size)


def refuse(run_id: int, key: StreamKey, size: int) -> None:
    """Count the bytes of a lost rank's stream that the master lacks and its recorder keeps."""
    if (refused := size - _held(key)) > 0:
        name = f"{key.attempt}/{key.rank}/{key.name}"
        not_recorded.refuse_bytes(run_id, name, min(refused, _LARGEST))


def count(owner: str, samples: int, lacking: Iterable[Mapping[str, int]]) -> None:
    """Count samples of lost ranks as additions, and add counts of missing data."""
    run = find_run(run_owner(int(owner.partition("/")[2])))
    if run is None:
        return
    now, added = time.time(), dict[str, Any](run.added or {})
    for name in ("samples", "of_lost_ranks"):
        added[name] = added.get(name, 0) + samples
    store(run, added={"first_at": now, **added, "last_at": now})
    for counts in lacking:
        not_recorded.add(run, counts)


def _held(key: StreamKey) -> int:
    """Return the size of a closed stream, behind which the late samples begin."""
    stream = streams.find(key)
    return int(stream.size) if stream else 0


def _late(key: StreamKey) -> StreamKey:
    return replace(key, owner=added_owner(key.owner.partition("/")[2]))
