"""From 0.1.0: what else a run may ask for, and what posted samples carry along.

Only SQLite's types change: 0.1.0 ran on nothing else.
"""

import json

from peewee import (
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    CompositeKey,
    Database,
    DoubleField,
    IntegerField,
    Model,
    TextField,
)
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    """Change the tables of 0.1.0."""
    used_ids = db.execute_sql("SELECT name, seq FROM sqlite_sequence").fetchall()
    add, retype = migrator.add_column, migrator.alter_column_type
    migrator.migrate(
        add("run", "image", TextField(default="")),
        add("run", "command", TextField(default="")),
        add("run", "backend", CharField(default="gloo")),
        add("run", "run_all_nodes", BooleanField(default=True)),
        retype("run", "num_cpus", DoubleField(null=True)),
        add("run", "max_bandwidth", DoubleField(null=True)),
        add("run", "gpu_enabled", BooleanField(default=False)),
        add("run", "light_target", BooleanField(default=False)),
        add("run", "seed", BigIntegerField(null=True)),
        add("run", "redeliveries", IntegerField(default=0)),
        retype("stream", "owner", TextField()),
        retype("series", "owner", TextField()),
        retype("series", "metric", TextField()),
        retype("series", "rank", TextField()),
        # Not known any more.
        add("series", "samples", BigIntegerField(default=0)),
        migrator.drop_index("keptsample", "keptsample_owner"),
        retype("keptsample", "owner", TextField()),
        retype("keptsample", "metric", TextField()),
        retype("keptsample", "rank", TextField()),
        add("keptsample", "cumulative", BooleanField(null=True)),
        add("keptsample", "metadata", TextField(null=True)),
        migrator.add_index("keptsample", ("owner", "metric", "rank", "time_us")),
    )
    # A table that was copied begins with the highest id that it has, not the highest ever used.
    for name, last in used_ids:
        db.execute_sql("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        db.execute_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, last))
    _create_new_tables(db)
    _rewrite_posted(db)


def _create_new_tables(db: Database) -> None:
    class Detail(Model):
        id = BigAutoField()
        owner = TextField()
        metric = TextField()
        rank = TextField()
        first_ms = BigIntegerField()
        last_ms = BigIntegerField()
        samples = TextField()

        class Meta:
            indexes = ((("owner", "metric", "rank", "last_ms"), False),)

    class PostedBody(Model):
        owner = TextField()
        digest = BlobField()

        class Meta:
            primary_key = CompositeKey("owner", "digest")

    with db.bind_ctx([Detail, PostedBody]):
        db.create_tables([Detail, PostedBody])


def _rewrite_posted(db: Database) -> None:
    """Write posted samples that still wait for Prometheus in the lines that are read today."""
    posted = db.execute_sql("SELECT id, delivered FROM stream WHERE name = 'posted'").fetchall()
    for stream, delivered in posted:
        chunks = db.execute_sql(
            'SELECT "offset", data FROM chunk WHERE stream_id = ? ORDER BY "offset"', (stream,)
        ).fetchall()
        db.execute_sql("DELETE FROM chunk WHERE stream_id = ?", (stream,))
        held = b"".join(data for _, data in chunks)
        waiting = held[delivered - chunks[0][0] :] if chunks else b""
        lines = b"".join(map(_rewrite, waiting.splitlines()))
        if lines:
            db.execute_sql("INSERT INTO chunk VALUES (?, ?, ?)", (stream, delivered, lines))
        size = delivered + len(lines)
        db.execute_sql("UPDATE stream SET size = ? WHERE id = ?", (size, stream))


def _rewrite(line: bytes) -> bytes:
    old = json.loads(line)
    time_us = round(old["time"] * 1e6)
    new = [old["name"], old["rank"], time_us, str(old["value"]), None, None]
    # Halves of character pairs cannot be stored.
    return json.dumps(new, ensure_ascii=False).encode(errors="replace") + b"\n"
