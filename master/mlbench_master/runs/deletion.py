"""Sweeping: delete the rows of deleted runs in small steps, and shrink SQLite's file.

Others can write between two steps. Each step begins from what the database says, so a controller
that is killed loses nothing. PostgreSQL frees its room by itself (autovacuum).
"""

import logging
import time

from mlbench_master.database.connection import database, database_kind, exclusive, run_sql
from mlbench_master.database.models import OWNED, Chunk, Deletion, Stream, deleted_owner
from mlbench_master.notify import Waiter

log = logging.getLogger(__name__)

# The duration of a step.
_STEP_SECONDS = 0.02
# The rows that one statement deletes; none is larger than a chunk.
_ROWS = 10
# The pages that one transaction frees, and those that stay to be used again.
_PAGES = 8
_SPARE_PAGES = 512
_INCREMENTAL = 2
_IDLE_SECONDS = 5.0
_AFTER_ERROR_SECONDS = 5.0


def run(waiter: Waiter) -> None:
    """Sweep until told to stop, and rest after each step for as long as it took."""
    pause = 0.0
    while not waiter.wait(pause):
        begun = time.monotonic()
        try:
            # Shrink first: the more pages are free, the longer SQLite takes for each.
            pause = time.monotonic() - begun if shrink() or sweep() else _IDLE_SECONDS
        except Exception:
            pause = _AFTER_ERROR_SECONDS
            log.exception("sweeping failed, trying again")


def sweep() -> bool:
    """Delete some rows of a deleted owner; return whether there was one."""
    deletion = Deletion.select().where(~Deletion.archived).first()
    if deletion is None:
        return False
    with exclusive(deletion.owner):
        end = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < end and not _free_pages():
            if not (_sweep_stream(deletion.owner) or _sweep_rows(deletion.owner)):
                deletion.delete_instance()
                break
    return True


def shrink() -> bool:
    """Cut some unused pages off SQLite's file; return whether there were any."""
    if not _free_pages():
        return False
    end = time.monotonic() + _STEP_SECONDS
    while (free := _free_pages()) and time.monotonic() < end:
        # As a script, each is a transaction of its own; as a query, it would free one page.
        database.connection().executescript(f"PRAGMA incremental_vacuum({_PAGES})")
    if not free:
        # A checkpoint cuts the file. A passive one waits for nobody.
        database.execute_sql("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return True


def _sweep_stream(owner: str) -> bool:
    """Delete the last chunks of a stream, or the stream if it has none; return whether it could."""
    stream = Stream.get_or_none(Stream.owner == deleted_owner(owner))
    if stream is None:
        return False
    # From the end, so that pages at the end of SQLite's file tend to be freed first.
    offsets = Chunk.select(Chunk.offset).where(Chunk.stream == stream)
    last = offsets.order_by(Chunk.offset.desc()).limit(_ROWS)
    if not Chunk.delete().where(Chunk.stream == stream, Chunk.offset.in_(last)).execute():
        stream.delete_instance()
    return True


def _sweep_rows(owner: str) -> bool:
    """Delete some rows of the first table that has any; return whether one had."""
    place = "rowid" if database_kind() == "sqlite" else "ctid"
    for table in OWNED:
        name = table._meta.table_name
        some = f"SELECT {place} FROM {name} WHERE owner = ? LIMIT {_ROWS}"  # noqa: S608
        gone = run_sql(f"DELETE FROM {name} WHERE {place} IN ({some})", owner)  # noqa: S608
        if gone.rowcount:
            return True
    return False


def _free_pages() -> int:
    """Count the pages that can be cut off."""
    # A file that was made without it, before there was sweeping, does not shrink.
    if database_kind() != "sqlite" or _pragma("auto_vacuum") != _INCREMENTAL:
        return 0
    return max(0, _pragma("freelist_count") - _SPARE_PAGES)


def _pragma(name: str) -> int:
    return int(database.execute_sql(f"PRAGMA {name}").fetchone()[0])
