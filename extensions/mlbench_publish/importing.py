"""Imports of runs from the archives of other installations.

An imported run is read-only. Its samples stay in its archive and are never sent to Prometheus.
"""

import shutil
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from peewee import BooleanField, DatabaseError, DoubleField, Field, IntegerField

from mlbench.archive import DIAGNOSES, ROWS, RUN, Archive, ArchiveError, file_name
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import Manifest
from mlbench.contract.records import Run as RunRecord
from mlbench.evaluation import sandbox
from mlbench.evaluation.summary_metrics import metrics_of, summary_metrics_of
from mlbench_master.database.connection import STATE, exclusive, store
from mlbench_master.database.models import ANNOTATION_COLUMNS, JSONField, Rank, Run
from mlbench_master.errors import BadFieldError, TooLargeError
from mlbench_master.reading.files import listed_in
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_query import result_of
from mlbench_master.runs import (
    diagnoses,
    lifecycle,
    presenters,
    run_events,
    run_manifest,
    run_profiles,
)
from mlbench_master.runs.requests import NAME, check_display_name

_MAX_MEMBER_BYTES = 64 << 20
_MAX_TOTAL_BYTES = 1 << 30
# Columns that an imported run does not keep, because they belong to the other installation.
_NOT_IMPORTED = {
    *("id", "run", "stop_requested", "delete_requested", "waiting", "archive_bytes"),
    *("figures", "added", "set_name", "slot", "origin", "job_key", *ANNOTATION_COLUMNS),
}
_TYPES: tuple[tuple[type[Field], tuple[type, ...]], ...] = (
    (JSONField, (object,)),
    (BooleanField, (bool,)),
    (IntegerField, (int,)),
    (DoubleField, (int, float)),
    (Field, (str,)),
)
# Errors that a malformed description of a run can cause, wherever it is used first.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, DatabaseError)


def import_archive(
    reader: SeriesReader, file: BinaryIO, is_gone: Callable[[], bool] = lambda: False
) -> tuple[Run, bool]:
    """Store the run of an archive, and return the run and whether it is new here.

    Args:
        reader: reader of the imported series.
        file: the archive.
        is_gone: returns whether the client has closed its connection.

    Raises:
        BadFieldError: the file is not an archive of a run, is damaged, or is newer (400).
        TooLargeError: the description of the run is too large (413).
        ArchiveError: the archive cannot be stored.
    """
    try:
        # Limit the size of compressed members, because each is read into memory. Opening the
        # archive reports any other kind of file.
        members = zipfile.ZipFile(file).infolist() if zipfile.is_zipfile(file) else []
        compressed = [member for member in members if member.compress_type != zipfile.ZIP_STORED]
        if large := [m.filename for m in compressed if m.file_size > _MAX_MEMBER_BYTES]:
            raise TooLargeError(f"body: {large[0]} has more than {_MAX_MEMBER_BYTES} bytes")
        if sum(member.file_size for member in compressed) > _MAX_TOTAL_BYTES:
            raise TooLargeError(f"body: its members have more than {_MAX_TOTAL_BYTES} bytes in all")
        archive = Archive(file, "it")
        file.flush()
        if damaged := sandbox.damage(file.fileno(), 120.0, is_gone):
            raise BadFieldError("body", "; ".join(damaged))
        run, is_new = _store(archive)
    except ArchiveError as error:
        raise BadFieldError("body", str(error)) from None
    except _MALFORMED as error:
        raise BadFieldError("body", f"its run is invalid: {error!r}") from None
    if run.origin and run.archive is None:  # also if an earlier import was interrupted

        def copy(draft: Path) -> str:
            file.seek(0)
            with draft.open("wb") as target:
                shutil.copyfileobj(file, target)
            return archive.digest

        reader.archives.put(name := file_name(run.name, run.id), copy)
        store(run, archive=name, archive_sha256=archive.digest)
        try:
            figures = asdict(summary_metrics_of(result_of(reader, run)))
            store(run, figures=figures | {"metrics": metrics_of(archive)})
        except _MALFORMED as error:
            lifecycle.delete(run)
            raise BadFieldError("body", f"it has no result that there can be: {error!r}") from None
    return run, is_new


def _store(archive: Archive) -> tuple[Run, bool]:
    """Store the run that an archive describes, unless this installation has the run.

    Raises:
        BadFieldError: the installation has the run with another archive (400).
    """
    record, rows = archive.document(RUN), archive.document(ROWS)
    [row] = rows["run"]
    with exclusive(STATE):
        existing = Run.get_or_none(Run.job_id == row["job_id"])
        if existing is not None:
            if existing.archive_sha256 and existing.archive_sha256 != archive.digest:
                raise BadFieldError(
                    "body",
                    f"this run is here already as run {existing.id}, with another archive (SHA-256 "
                    f"{existing.archive_sha256}, and of this file {archive.digest}): one of them "
                    "was changed, or sealed again; ask who ran it which is right, and delete the "
                    "other",
                )
            return existing, False
        run = Run(**_columns(Run, row), blocks_deleted_at=time.time(), sealed_at=time.time())
        if not NAME.fullmatch(run.name) or len(run.name) > MAX_RESOURCE_NAME_LENGTH:
            raise ValueError(f"its name is {run.name!r}")
        check_display_name(run.own_name)
        if run.state in ACTIVE_STATES or run.finished_at is None or not row["job_id"]:
            raise ValueError("it has not ended")
        run.origin = {
            "installation": str(record.get("installation", ""))[:100],
            "run_id": int(row["id"]),
            "imported_at": time.time(),
            # The benchmark set itself is not imported.
            **{name: row[name] for name in ("set_name", "slot") if row.get(name) is not None},
        }
        run.save(force_insert=True)
        for rank in rows["rank"]:
            Rank.create(run=run, **_columns(Rank, rank))
        if DIAGNOSES in archive.members:
            diagnoses.restore(run, archive.document(DIAGNOSES))
        # Every record of the run must be valid, so that no later request fails.
        listed_in(record)
        run_profiles.listed_in(record)
        RunRecord.from_fields(presenters.describe(run).to_fields())
        Manifest.from_fields(run_manifest.build(run).to_fields())
        run_events.events_of(run)
    return run, True


def _columns(table: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that this version knows, after a check of their types."""
    columns = {}
    for name, field in table._meta.fields.items():
        if name in row and name not in _NOT_IMPORTED:
            types = next(types for kind, types in _TYPES if isinstance(field, kind))
            value = row[name]
            if not (isinstance(value, types) or (value is None and field.null)):
                raise ValueError(f"{table._meta.table_name}.{name} is {value!r}")
            columns[name] = value
    return columns
