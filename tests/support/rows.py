"""Create the runs, ranks, workers and metric lines that a test starts from."""

import hashlib
import itertools
import json
import struct
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from peewee import PostgresqlDatabase

from mlbench.contract.output import OutputFile, OutputList
from mlbench_master.database.connection import database, run_sql
from mlbench_master.database.models import Pod, Rank, Run, Stream, Worker, run_owner
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording import streams
from mlbench_master.recording.ingest import append_posted, open_posted
from mlbench_master.recording.remote_write import RemoteWriter, WriteRequest, encode_labels
from mlbench_master.recording.samples import Sample, to_posted_lines
from mlbench_master.recording.streams import METRICS, StreamKey

NO_ARCHIVES = ArchiveStore("/nowhere")

# Prometheus's stale marker: it writes this value when a target's scrape failed.
[STALE] = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))

# Many tests share one Prometheus, so no two of them may use the same run id.
_RUN_IDS = itertools.count(1_000, 1_000)

QUIET: dict[str, Any] = {
    "seconds": 10.0,
    "cores": 2,
    "waiting_seconds": 0.1,
    "self_contention_seconds": 0.2,
    "others_core_seconds": 1.0,
    "top": {"idle": 0.1},
    "stolen_seconds": 0.0,
    "throttled_seconds": None,
    "node_pressure_seconds": {},
    "pod_pressure_seconds": {},
    "major_faults": 0,
    "involuntary_switches": 3,
    "core_hertz": None,
    "gpu_limited_seconds": {},
}
"""CPU contention report of an undisturbed rank."""


def make_run(num_workers: int = 2, **fields: Any) -> Run:
    """Store a started run, under an id that no other test uses."""
    defaults = {"id": next(_RUN_IDS), "job_id": str(uuid.uuid4()), "name": "made", "args": {}}
    defaults |= {"benchmark": "steps", "state": "STARTED", "attempt": 1, "created_at": time.time()}
    run: Run = Run.create(num_workers=num_workers, **defaults | fields, force_insert=True)
    if isinstance(database.obj, PostgresqlDatabase):
        # PostgreSQL's sequence ignores ids that were set explicitly.
        run_sql("SELECT setval('run_id_seq', ?)", run.id)
    return run


def reload(run: Run) -> Run:
    current: Run = Run.get_by_id(run.id)
    return current


def make_ranks(run: Run, workers: Sequence[str] = ("w-0", "w-1"), **fields: Any) -> list[Rank]:
    """Add a rank of the run's attempt on each of these workers. Missing pods are created."""
    for worker in workers:
        if Pod.get_or_none(Pod.name == worker) is None:
            see_pod(worker, uid=fields.get("pod_uid") or "")
    defaults = {"attempt": run.attempt, "assigned_at": time.time()}
    ranks = []
    for rank, worker in enumerate(workers):
        assignment = {"run_id": run.id, "attempt": run.attempt, "rank": rank}
        placement = {"rank": rank, "worker": worker, "assignment": assignment}
        ranks.append(Rank.create(run=run, **defaults | placement | fields))
    return ranks


def make_worker(name: str, **fields: Any) -> None:
    """Store a worker's last report: by default, idle as of now."""
    idle = {"state": "idle", "run_id": None, "attempt": None, "ip": ""}
    row = {**idle, "seen_at": time.time(), "heard": 0, **fields}
    Worker.insert(name=name, **row).on_conflict(conflict_target=[Worker.name], update=row).execute()


def make_pod() -> str:
    """Store a pod with a unique name, and return the name."""
    name = f"pod-{uuid.uuid4()}"
    see_pod(name)
    return name


def see_pod(name: str, uid: str = "") -> None:
    labels = {"app": "mlbench"}
    fields = {"phase": "Running", "ip": "127.0.0.1", "node": "here", "labels": labels, "uid": uid}
    Pod.insert(name=name, **fields).on_conflict(conflict_target=[Pod.name], update=fields).execute()


def line(at: float, **metrics: Any) -> bytes:
    return json.dumps({"time": at, "metrics": metrics}).encode() + b"\n"


def key(run: Run, rank: int = 0, name: str = METRICS) -> StreamKey:
    """Return the key of a stream of the run's attempt."""
    return StreamKey(run_owner(run.id), run.attempt, rank, name)


def record(run: Run, data: bytes, rank: int = 0) -> Stream:
    """Append bytes to a rank's metrics stream, and return it."""
    where = key(run, rank)
    streams.append(where, streams.append(where, 0, b""), data)
    return get_stream(where)


def get_stream(where: StreamKey) -> Stream:
    stream: Stream = Stream.get(**vars(where))
    return stream


class TimeSeries(NamedTuple):
    """A series in Prometheus: labels, and pairs of milliseconds and value."""

    labels: Mapping[str, str]
    points: Sequence[tuple[int, float]]


def write_request(written: Iterable[TimeSeries]) -> WriteRequest:
    """Return the request that sends these series."""
    series = list(written)
    points = [point for entry in series for point in entry.points]
    return WriteRequest(
        [encode_labels(entry.labels) for entry in series],
        [*accumulate((len(entry.points) for entry in series), initial=0)][:-1],
        np.array([time_ms for time_ms, _ in points], np.int64),
        np.array([value for _, value in points]),
    )


def send(writer: RemoteWriter, *written: TimeSeries) -> None:
    """Send series in one request."""
    writer.send(write_request(written))


def series(name: str, at: Sequence[float], values: Sequence[float], /, **labels: str) -> TimeSeries:
    """Return a series with these values at these times, in Unix seconds."""
    points = [(round(seconds * 1000), value) for seconds, value in zip(at, values, strict=True)]
    return TimeSeries({"__name__": name, **labels}, points)


def level(name: str, at: Sequence[float], value: float, /, **labels: str) -> TimeSeries:
    """Return a series with a constant value at these times, in Unix seconds."""
    return series(name, at, [value] * len(at), **labels)


def write(prometheus_url: str, written: Iterable[TimeSeries]) -> None:
    """Store these series in a Prometheus."""
    with closing(RemoteWriter(prometheus_url)) as writer:
        send(writer, *written)


def post(owner: str, samples: Sequence[Sample]) -> None:
    open_posted(owner)
    append_posted(owner, to_posted_lines(samples))


def ship_files(run: Run, files: Mapping[str, bytes | OutputFile], rank: int = 0) -> None:
    """Store a rank's output files. An ``OutputFile`` is only listed, not uploaded."""
    contents = {name: file for name, file in files.items() if isinstance(file, bytes)}
    uploaded = [
        OutputFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    ]
    listed_only = tuple(file for file in files.values() if isinstance(file, OutputFile))
    listed = OutputList("/there", (*uploaded, *listed_only))
    data = listed.line() + b"".join(contents.values())
    streams.append_files(key(run, rank, "files"), 0, data, len(data))
