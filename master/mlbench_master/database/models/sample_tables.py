"""Tables of streams and samples, whose rows belong to an owner: a run, or a pod."""

from peewee import (
    AutoField,
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    CompositeKey,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from mlbench_master.database.models.run_tables import Run
from mlbench_master.database.models.table import JSONField, Table


class Stream(Table):
    """An append-only stream of bytes: a rank's stdout, stderr, metrics or files, or posted samples.

    ``owner`` is ``run/7``, ``added/7`` or ``pod/NAME``. Posted samples have attempt 0 and rank -1.
    """

    id = AutoField()
    owner = TextField()
    attempt = IntegerField()
    rank = IntegerField()
    name = CharField()
    size = BigIntegerField(default=0)
    """Number of stored bytes, which is the offset of the next chunk."""
    final_size = BigIntegerField(null=True)
    """Size of the complete stream; null until the process has exited."""
    indexed = BigIntegerField(default=0)
    """Number of bytes whose samples are in blocks; always whole lines."""
    recorded = BigIntegerField(default=0)
    """Number of samples in the indexed bytes."""
    gap_start = BigIntegerField(default=0)
    """Offset of the gap in a long log, whose middle is not stored; 0 without a gap."""
    gap_end = BigIntegerField(default=0)
    """End of the gap. Chunks in the gap are about to be deleted."""
    has_other_ranks = BooleanField(default=False)
    """Whether it may contain samples of other ranks."""

    class Meta:
        indexes = ((("owner", "attempt", "rank", "name"), True),)


# Finds the few streams with samples to be indexed among those of all runs.
Stream.add_index(
    Stream.index(Stream.name, where=Stream.indexed < Stream.size, name="stream_waiting")
)


class Chunk(Table):
    """A piece of a stream. Chunks of samples are deleted once they are indexed."""

    stream = ForeignKeyField(Stream, backref="chunks", on_delete="CASCADE")
    offset = BigIntegerField()
    data = BlobField()

    class Meta:
        primary_key = CompositeKey("stream", "offset")


class Block(Table):
    """Recorded samples of one metric (``mlbench_master/recording/blocks.py``)."""

    id = BigAutoField()
    owner = TextField()
    metric = TextField()
    first_us = BigIntegerField()
    last_us = BigIntegerField()
    samples = IntegerField()
    """Number of samples."""
    is_posted = BooleanField()
    """Whether clients posted some of them, with times to the microsecond, or some have metadata."""
    exported = IntegerField(null=True)
    """Number of samples that Prometheus has accepted; null until they were sent."""
    only_here = JSONField(null=True)
    """Positions of the samples that Prometheus cannot hold, or has refused; null: none."""
    data = BlobField()

    class Meta:
        indexes = ((("owner", "metric", "id"), False),)


# Finds the few blocks that wait for Prometheus.
Block.add_index(Block.index(Block.owner, where=Block.exported.is_null(), name="block_waiting"))


class SeriesName(Table):
    """Name of a series of an owner, to limit their number."""

    owner = TextField()
    metric = TextField()
    rank = TextField()

    class Meta:
        primary_key = CompositeKey("owner", "metric", "rank")


class PostedBody(Table):
    """Digest of a posted body: posting it again adds nothing."""

    owner = TextField()
    digest = BlobField()

    class Meta:
        primary_key = CompositeKey("owner", "digest")


class Deletion(Table):
    """A deleted owner that still has rows."""

    owner = TextField(primary_key=True)
    archived = BooleanField(default=False)
    """Whether its archive still exists; it is deleted before the rows."""


class DeletedRun(Table):
    """A deleted run whose series may still be in Prometheus."""

    run_id = IntegerField(primary_key=True)
    deleted_by = CharField(default="")
    """User who deleted it; empty if unknown."""
    deleted_at = DoubleField()
    once = BooleanField(default=False)
    """Whether the series were deleted once."""


# Tables whose rows belong to an owner, and are deleted with it.
OWNED = (Stream, Block, SeriesName, PostedBody)


def run_owner(run_id: int) -> str:
    """Return the owner of a run's streams and samples."""
    return f"run/{run_id}"


def added_owner(run_id: int | str) -> str:
    """Return the owner of samples posted for a run after its end, which are not part of it."""
    return f"added/{run_id}"


def deleted_owner(owner: str) -> str:
    """Return the owner of a deleted owner's streams until they are deleted."""
    return f"deleted/{owner}"


def find_run(owner: str) -> Run | None:
    """Return the run of an owner; None for a pod, or for a run that was deleted."""
    kind, _, run_id = owner.partition("/")
    return next(iter(Run.rows("id = ?", int(run_id))), None) if kind == "run" else None


def pod_owner(pod: str) -> str:
    """Return the owner of the samples posted for a pod."""
    return f"pod/{pod}"
