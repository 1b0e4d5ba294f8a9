"""Sweeping: what was deleted goes in small steps, and SQLite's file gives back its room.

Others write between two steps, and a step begins from what is: who is killed is succeeded by who
comes next. PostgreSQL gives room back by itself (autovacuum).
"""

import logging
import shutil
import threading
import time
from pathlib import Path

from peewee import OperationalError, SqliteDatabase

from master.database import database, exclusive, run_sql
from master.models import OWNED, Chunk, Deletion, Stream, deleted_owner

log = logging.getLogger(__name__)

# One step takes so long.
_STEP_SECONDS = 0.02
# One statement deletes so many rows: no row is larger than a chunk.
_ROWS = 10
# One transaction gives back so many pages. A few more stay: they are used again.
_PAGES = 8
_SPARE_PAGES = 512
# Larger files are not copied behind the user's back.
_QUICKLY_COPIED_BYTES = 256 << 20
_INCREMENTAL = 2
_IDLE_SECONDS = 0.5
_AFTER_ERROR_SECONDS = 5.0


def run(stop: threading.Event) -> None:
    """Sweep for ever, and rest as long as each step took: half of the time is others'."""
    let_shrink()
    patience = 0.0
    while not stop.wait(patience):
        begun = time.monotonic()
        try:
            # SQLite takes the longer for a page, the more of them are free: give back first.
            patience = time.monotonic() - begun if give_back() or sweep() else _IDLE_SECONDS
        except Exception:
            patience = _AFTER_ERROR_SECONDS
            log.exception("sweeping failed, trying again")


def sweep() -> bool:
    """Delete a little of what belongs to a deleted owner; return whether there was one."""
    deletion = Deletion.select().first()
    if deletion is None:
        return False
    with exclusive(deletion.owner):
        end = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < end and not _free_pages():
            if not (_sweep_stream(deletion.owner) or _sweep_rows(deletion.owner)):
                deletion.delete_instance()
                break
    return True


def give_back() -> bool:
    """Make SQLite's file smaller by a few of the pages that it does not use; return whether."""
    if not _free_pages():
        return False
    end = time.monotonic() + _STEP_SECONDS
    while (free := _free_pages()) and time.monotonic() < end:
        # Each in a transaction of its own. As a query, it would give back one page.
        database.connection().executescript(f"PRAGMA incremental_vacuum({_PAGES})")
    if not free:
        # The file is cut where the log's pages are written into it. Nobody waits for this.
        database.execute_sql("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return True


def let_shrink() -> None:
    """Bring an older SQLite file into the form that can become smaller, if that is quick."""
    if not isinstance(database.obj, SqliteDatabase) or _is_incremental():
        return
    file = Path(database.obj.database)
    size = file.stat().st_size
    if size > _QUICKLY_COPIED_BYTES or shutil.disk_usage(file.parent).free < 3 * size:
        log.warning(
            "%s does not become smaller when runs are deleted, though its room is used again: "
            "stop MLBench, then run: sqlite3 %s 'PRAGMA auto_vacuum=incremental; VACUUM'",
            file,
            file,
        )
        return
    try:
        database.execute_sql("VACUUM")
    except OperationalError as error:
        log.warning("%s could not be copied, so it does not become smaller: %s", file, error)


def _sweep_stream(owner: str) -> bool:
    """Delete the last chunks of a stream, or one that has none; return whether there was one."""
    stream = Stream.get_or_none(Stream.owner == deleted_owner(owner))
    if stream is None:
        return False
    # From the end on, so that pages at the end of SQLite's file tend to go first.
    offsets = Chunk.select(Chunk.offset).where(Chunk.stream == stream)
    last = offsets.order_by(Chunk.offset.desc()).limit(_ROWS)
    if not Chunk.delete().where(Chunk.stream == stream, Chunk.offset.in_(last)).execute():
        stream.delete_instance()
    return True


def _sweep_rows(owner: str) -> bool:
    """Delete some rows of a table that has any; return whether there were any."""
    place = "ctid" if not isinstance(database.obj, SqliteDatabase) else "rowid"
    for table in OWNED:
        name = table._meta.table_name
        some = f"SELECT {place} FROM {name} WHERE owner = ? LIMIT {_ROWS}"  # noqa: S608
        gone = run_sql(f"DELETE FROM {name} WHERE {place} IN ({some})", owner)  # noqa: S608
        if gone.rowcount:
            return True
    return False


def _free_pages() -> int:
    """Return how many pages could be given back."""
    if not isinstance(database.obj, SqliteDatabase) or not _is_incremental():
        return 0
    return max(0, _pragma("freelist_count") - _SPARE_PAGES)


def _is_incremental() -> bool:
    return _pragma("auto_vacuum") == _INCREMENTAL


def _pragma(name: str) -> int:
    return int(database.execute_sql(f"PRAGMA {name}").fetchone()[0])
