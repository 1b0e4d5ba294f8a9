"""Sweeping: delete the rows of deleted runs in small steps, and shrink SQLite's file.

Other processes can write between two steps. Each step starts from the state of the database, so a
killed controller loses nothing. PostgreSQL frees its space by itself (autovacuum).
"""

import logging
import time

from mlbench_master.database.connection import database, database_kind, exclusive, run_sql
from mlbench_master.database.models import OWNED, Chunk, Deletion, Stream, deleted_owner
from mlbench_master.notify import Waiter

log = logging.getLogger(__name__)

_STEP_SECONDS = 0.02
# Rows per statement. No row is larger than a chunk.
_ROWS = 10


def run(waiter: Waiter) -> None:
    """Sweep until stopped. After each step, pause for as long as the step took."""
    pause = 0.0
    while not waiter.wait(pause):
        start = time.monotonic()
        try:
            # Shrink first, because each page takes longer if many pages are free.
            pause = time.monotonic() - start if shrink() or sweep() else 5.0
        except Exception:
            pause = 5.0
            log.exception("sweeping failed, trying again")


def sweep() -> bool:
    """Delete some rows of a deleted owner. Return False if no owner is left."""
    deletion = Deletion.select().where(~Deletion.archived).first()
    if deletion is None:
        return False
    with exclusive(deletion.owner):
        end = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < end and not _free_pages():
            if not _delete_some(deletion.owner):
                deletion.delete_instance()
                break
    return True


def shrink() -> bool:
    """Cut some unused pages off SQLite's file. Return False if none are left."""
    if not _free_pages():
        return False
    end = time.monotonic() + _STEP_SECONDS
    while (free := _free_pages()) and time.monotonic() < end:
        # A query would free one page only; a script frees all eight in one transaction.
        database.connection().executescript("PRAGMA incremental_vacuum(8)")
    if not free:
        # A checkpoint truncates the file. A passive checkpoint does not wait for readers.
        database.execute_sql("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return True


def _delete_some(owner: str) -> bool:
    """Delete some chunks of an owner, then rows of other tables. Return False if none is left."""
    stream = Stream.get_or_none(Stream.owner == deleted_owner(owner))
    if stream is not None:
        # The last chunks first, so that pages at the end of SQLite's file tend to be freed first.
        offsets = Chunk.select(Chunk.offset).where(Chunk.stream == stream)
        last = offsets.order_by(Chunk.offset.desc()).limit(_ROWS)
        if not Chunk.delete().where(Chunk.stream == stream, Chunk.offset.in_(last)).execute():
            stream.delete_instance()
        return True
    row_id = "rowid" if database_kind() == "sqlite" else "ctid"
    for table in OWNED:
        name = table._meta.table_name
        rows = f"SELECT {row_id} FROM {name} WHERE owner = ? LIMIT {_ROWS}"  # noqa: S608
        deleted = run_sql(f"DELETE FROM {name} WHERE {row_id} IN ({rows})", owner)  # noqa: S608
        if deleted.rowcount:
            return True
    return False


def _free_pages() -> int:
    """Count the pages that can be cut off."""
    # Files without incremental vacuum (2), made by old versions, do not shrink.
    if database_kind() != "sqlite" or _pragma("auto_vacuum") != 2:
        return 0
    # Keep 512 spare pages for new rows.
    return max(0, _pragma("freelist_count") - 512)


def _pragma(name: str) -> int:
    return int(database.execute_sql(f"PRAGMA {name}").fetchone()[0])
