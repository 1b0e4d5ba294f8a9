"""Content of a run's archive: its records, their database rows, and its series."""

import socket
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from mlbench.archive import DIAGNOSES, ROWS, RUN, More, Piece, SeriesName, file_member
from mlbench.contract.results import Result
from mlbench_master.database.models import (
    ANNOTATION_COLUMNS,
    Chunk,
    Rank,
    Run,
    Stream,
    run_owner,
)
from mlbench_master.reading import files
from mlbench_master.reading.points import Series
from mlbench_master.reading.record import LiveRecord
from mlbench_master.reading.selection import NamedSamples
from mlbench_master.runs import (
    benchmark_sets,
    diagnoses,
    presenters,
    run_events,
    run_manifest,
    run_profiles,
)

# Columns about the archive itself, and columns that can change after the end of the run.
_NOT_SEALED = {
    *("archive", "archive_sha256", "archive_bytes", "archive_problem", "sealed_at"),
    "blocks_deleted_at",
    *("resends", "figures", "added", "job_key", "note_html", *ANNOTATION_COLUMNS),
}

SealedSeries = Iterator[tuple[SeriesName, Iterator[Piece]]]


def documents(run: Run, result: Result) -> dict[str, Any]:
    """Return the API records of a run, and the database rows from which they are computed."""
    of_run = presenters.describe(run).to_fields()
    content = {
        "installation": socket.gethostname(),
        "run": {name: value for name, value in of_run.items() if name not in _NOT_SEALED},
        "events": [event.to_fields() for event in run_events.events_of(run)],
        "manifest": run_manifest.build(run).to_fields(),
        "result": result.to_fields(),
        "files": [file.to_fields() for file, _ in files.stored(run)],
        "profiles": [profile.to_fields() for profile in run_profiles.stored(run)],
    }
    if run.set_name:
        content["set"] = benchmark_sets.at_sealing(run).to_fields()
    row = {name: value for name, value in run.__data__.items() if name not in _NOT_SEALED}
    row["command"] = run.shown_command
    owner = run_owner(run.id)
    tables: dict[str, Any] = {
        "rank": Rank.select().where(Rank.run == run.id).order_by(Rank.attempt, Rank.rank),
        "stream": Stream.select().where(Stream.owner == owner).order_by(Stream.id),
    }
    rows = {name: list(query.dicts()) for name, query in tables.items()}
    asked = [diagnoses.describe(diagnosis).to_fields() for diagnosis in diagnoses.asked_of(run.id)]
    described = {DIAGNOSES: asked} if asked else {}
    return {RUN: content, ROWS: {"run": [row], **rows}, **described}


def files_of(run: Run) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the stored files of a run's ranks, by member of the archive."""
    for file, content in files.contents(run):
        yield file_member(file.attempt, file.rank, file.name), iter([content])


def logs_of(run: Run) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the stored logs of a run's ranks, by member such as ``logs/1/0.stdout``."""
    is_log = Stream.name.in_(["stdout", "stderr"])
    logs = Stream.select().where(Stream.owner == run_owner(run.id), is_log)
    for stream in list(logs.order_by(Stream.attempt, Stream.rank, Stream.name)):
        yield f"logs/{stream.attempt}/{stream.rank}.{stream.name}", _chunks(stream)


def _chunks(stream: Stream) -> Iterator[bytes]:
    offsets = Chunk.select(Chunk.offset).where(Chunk.stream == stream).order_by(Chunk.offset)
    for offset in list(offsets):
        yield bytes(Chunk.get(Chunk.stream == stream, Chunk.offset == offset.offset).data)


def added(run: Run) -> dict[str, Any]:
    """Return the description of a run's additions, for their archive."""
    samples, first_at, last_at = (run.added[name] for name in ("samples", "first_at", "last_at"))
    owner = {"run_id": run.id, "job_id": run.job_id, "name": run.name, "sha256": run.archive_sha256}
    return {"of": owner, "samples": samples, "first_at": first_at, "last_at": last_at}


def series_of_record(record: LiveRecord) -> SealedSeries:
    """Yield each series of a record, in order of their metrics and ranks."""
    for metric in record.metrics:
        # A generator, so that the samples of one metric are freed before the next are read.
        yield from _series_of_metric(record, metric)


def _series_of_metric(record: LiveRecord, metric: str) -> SealedSeries:
    sent, others = record.split(metric)
    for rank in sorted({*sent, *others}):
        pieces = [_to_piece(sent[rank], kept=False)] if rank in sent else []
        pieces += [_to_piece(others[rank], kept=True)] if rank in others else []
        yield SeriesName(metric, rank), iter(pieces)


def series_of_pods(pods: Iterable[tuple[str, NamedSamples]]) -> SealedSeries:
    """Yield each series of a run's pods: resource usage and posted samples."""
    for pod, samples in pods:
        for name, series in samples:
            yield SeriesName(name, pod=pod), iter([_to_piece(series, kept=True)])


def _to_piece(series: Series, *, kept: bool) -> Piece:
    times, values = array("q", series.times_us.tobytes()), array("d", series.values.tobytes())
    return Piece(times, values, {i: More(*note[:3]) for i, note in series.notes.items()}, kept)
