"""Samples are in blocks, from which everyone reads; the lines that are there are indexed again."""

import json
import math
import time
from itertools import groupby
from typing import Any

import numpy as np
from peewee import (
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    Database,
    IntegerField,
    Model,
    TextField,
)
from playhouse.migrate import SchemaMigrator

from mlbench.contract.series import format_value


class Block(Model):
    """The table as it was then."""

    id = BigAutoField()
    owner = TextField()
    metric = TextField()
    first_us = BigIntegerField()
    last_us = BigIntegerField()
    samples = IntegerField()
    is_posted = BooleanField()
    exported = IntegerField(null=True)
    only_here = TextField(null=True)
    data = BlobField()

    class Meta:
        indexes = ((("owner", "metric", "id"), False),)


Block.add_index(Block.index(Block.owner, where=Block.exported.is_null(), name="block_waiting"))
_COLUMNS = (
    ("stream", "delivered", "indexed"),
    ("run", "settled_at", "blocks_deleted_at"),
    ("run", "redeliveries", "resends"),
)
# The archives of these runs lack lines that came late.
_SEAL_AGAIN = """
    UPDATE run SET sealed_at = NULL
    WHERE sealed_at IS NOT NULL AND blocks_deleted_at IS NULL AND EXISTS (
        SELECT 1 FROM stream WHERE stream.owner = 'run/' || run.id
            AND name IN ('metrics', 'posted') AND indexed < size)
"""
# Archives have all samples of sealed runs.
_DELETE_SEALED = """
    DELETE FROM chunk WHERE stream_id IN (
        SELECT stream.id FROM stream JOIN run ON stream.owner = 'run/' || run.id
        WHERE stream.name IN ('metrics', 'posted')
            AND run.sealed_at IS NOT NULL AND run.archive IS NOT NULL)
"""
_MARK_SEALED = """
    UPDATE run SET blocks_deleted_at = sealed_at
    WHERE sealed_at IS NOT NULL AND archive IS NOT NULL AND blocks_deleted_at IS NULL
"""
_IS_WHOLE = """
    stream.name IN ('metrics', 'posted') AND size > 0 AND SUBSTR(owner, 1, 8) <> 'deleted/'
    AND (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM chunk WHERE stream_id = stream.id)
"""
# Streams whose chunks are all there, as those of runs are until an hour after their end.
_INDEX_AGAIN = f"SELECT owner, id, name, recorded FROM stream WHERE {_IS_WHOLE} = size"  # noqa: S608
# Their archives would be empty.
_MARK_LOST = f"""
    UPDATE run SET sealed_at = ?, archive_problem = ?,
        blocks_deleted_at = COALESCE(blocks_deleted_at, ?)
    WHERE finished_at IS NOT NULL AND archive IS NULL AND sealed_at IS NULL AND origin IS NULL
        AND EXISTS (
            SELECT 1 FROM stream WHERE owner = 'run/' || run.id AND {_IS_WHOLE} < size)
"""  # noqa: S608
_WHY_LOST = "its samples are only in Prometheus, because an older version of MLBench recorded it"
_UNSTORABLE = """
    SELECT owner, metric, rank, time_us, value, cumulative, metadata FROM keptsample
    WHERE SUBSTR(owner, 1, 4) = 'pod/' ORDER BY owner, metric, id
"""
_ADD = """
    INSERT INTO block (owner, metric, first_us, last_us, samples, is_posted, data)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Create the table, and let the lines be indexed."""

    def sql(text: str, *values: Any) -> list[Any]:
        cursor = db.execute_sql(text.replace("?", db.param), values)
        return cursor.fetchall() if cursor.description else []

    for table, old, new in _COLUMNS:
        sql(f'ALTER TABLE "{table}" RENAME COLUMN "{old}" TO "{new}"')
    with db.bind_ctx([Block]):
        db.create_tables([Block])
    # The chunks of pods were deleted. Their numbers are in Prometheus.
    for (owner, metric), rows in groupby(sql(_UNSTORABLE), lambda row: (row[0], row[1])):
        sql(_ADD, owner, metric, *_to_block([row[2:] for row in rows]))
    for table in ("series", "keptsample", "detail"):
        sql(f'DROP TABLE "{table}"')
    sql("UPDATE run SET delivery = REPLACE(delivery, '\"in_database\":', '\"record_only\":')")
    sql(_SEAL_AGAIN)
    sql(_DELETE_SEALED)
    sql(_MARK_SEALED)
    now = time.time()
    sql(_MARK_LOST, now, _WHY_LOST, now)
    for owner, stream_id, name, recorded in sql(_INDEX_AGAIN):
        sql("UPDATE stream SET indexed = 0, recorded = 0 WHERE id = ?", stream_id)
        kind, _, key = owner.partition("/")
        if kind == "run":
            # Malformed lines and samples beyond the limit of series are counted again.
            [(text,)] = sql("SELECT not_recorded FROM run WHERE id = ?", int(key)) or [(None,)]
            counts = json.loads(text or "{}")
            kept = {key: n for key, n in counts.items() if key == "refused_bytes"}
            reset = "UPDATE run SET refused = NULL, not_recorded = ? WHERE id = ?"
            sql(reset, json.dumps(kept) if kept else None, int(key))
        elif kind == "added" and name == "metrics":
            # Samples of lost ranks are counted again, which posted ones are not.
            [(text,)] = sql("SELECT added FROM run WHERE id = ?", int(key)) or [(None,)]
            if added := json.loads(text or "null"):
                for count in ("samples", "of_lost_ranks"):
                    added[count] = added.get(count, 0) - recorded
                sql("UPDATE run SET added = ? WHERE id = ?", json.dumps(added), int(key))


def _to_block(rows: list[Any]) -> tuple[int, int, int, bool, bytes]:
    """Return the columns from ``first_us`` on for samples of a metric, as ``blocks.py`` writes."""
    names = list(dict.fromkeys(rank for rank, *_ in rows))
    values, more = [], []
    for i, (_, _, value, cumulative, metadata) in enumerate(rows):
        number = _to_number(value)
        values.append(math.nan if number is None else number)
        text = value if number is None else None
        fields = (
            text,
            None if cumulative is None else bool(cumulative),
            json.loads(metadata or "null"),
        )
        if fields != (None, None, None):
            more.append([i, *fields])
    times = [time_us for _, time_us, *_ in rows]
    data = (
        np.array([names.index(rank) for rank, *_ in rows], "<i4").tobytes()
        + np.array(times, "<i8").tobytes()
        + np.array(values, "<f8").tobytes()
        + json.dumps([names, more]).encode()
    )
    return min(times), max(times), len(rows), True, data


def _to_number(value: str) -> float | None:
    """Return the number that is spelled like this; None for a text."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if format_value(number) == value else None
