"""Posted samples: checking them, and storing each body once, however often it is sent.

Their streams have attempt 0 and rank -1. Clients post samples one at a time, so bodies that arrive
together share a transaction, and the statements are SQL: composing them with peewee takes longer
than running them.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import orjson

from mlbench.contract.errors import MLBenchError
from mlbench.contract.fields import NO_NUL, Field
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_METRIC_TEXT_LENGTH
from mlbench.contract.series import number_or_text, split_name
from mlbench_master import timestamps
from mlbench_master.database.connection import exclusive, run_sql
from mlbench_master.database.group_commit import GroupCommit
from mlbench_master.database.models import Pod, Rank, Stream, added_owner, pod_owner, run_owner
from mlbench_master.errors import NotFoundError
from mlbench_master.notify import notify
from mlbench_master.recording import streams
from mlbench_master.recording.limits import SeriesLimit
from mlbench_master.recording.samples import MAX_METADATA_BYTES, Sample, to_posted_lines
from mlbench_master.recording.streams import POSTED, StreamKey
from mlbench_master.runs import lifecycle

MAX_SAMPLES = 10_000

_GROW = (
    "UPDATE stream SET size = size + ? "
    "WHERE owner = ? AND attempt = 0 AND rank = -1 AND name = 'posted' RETURNING id, size"
)
_IS_ENDED = "SELECT added FROM run WHERE id = ? AND finished_at IS NOT NULL"
_KNOWN = "SELECT digest FROM postedbody WHERE owner = ? AND digest IN ({})"
_REMEMBER = (
    "INSERT INTO postedbody (owner, digest) VALUES {} ON CONFLICT DO NOTHING RETURNING digest"
)

# The runs with late samples. Whether one has ended is looked at again by who appends them.
_ended: set[int] = set()


class WrongOwnerError(MLBenchError):
    """The samples belong to the run's other owner: to ``added_owner`` once it has ended."""


def _check_date(date: datetime) -> datetime:
    if timestamps.EARLIEST_US <= timestamps.to_microseconds(date) <= timestamps.LATEST_US:
        return date
    raise ValueError("must be in the years 1 to 9999, in UTC")


def _check_metadata(metadata: Any) -> Any:
    try:
        size = len(orjson.dumps(metadata))
    except TypeError as error:
        raise ValueError(f"cannot be stored: {error}") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"must have at most {MAX_METADATA_BYTES} bytes as JSON (got {size})")
    return metadata


@dataclass(kw_only=True)
class PostedSample:
    """A sample as a client posts it to ``/api/metrics/``."""

    json_schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {"required": [owner], "properties": {owner: {"not": {"type": "null"}}}}
            for owner in ("run_id", "pod_name")
        ]
    }

    run_id: int | None = None
    """Id of the run. Ignored where `pod_name` is given."""
    pod_name: Annotated[str | None, Field(max_length=253)] = None
    """Name of the pod."""
    name: Annotated[str, Field(min_length=1, max_length=MAX_METRIC_NAME_LENGTH, pattern=NO_NUL)]
    """Name of the series: a metric, or metric and rank such as `train_loss @ 0`."""
    date: Annotated[datetime, _check_date] = field(default_factory=lambda: datetime.now(UTC))
    """Time of the sample. By default, when the master gets it."""
    value: Annotated[int | float | str, Field(max_length=MAX_METRIC_TEXT_LENGTH, pattern=NO_NUL)]
    """Value."""
    cumulative: bool | None = None
    """Whether the values of the series add up."""
    metadata: Annotated[Any, _check_metadata] = None
    """Any JSON, which is returned with the sample."""

    def __post_init__(self) -> None:
        if self.run_id is None and self.pod_name is None:
            raise ValueError("run_id and pod_name: one of the two is required")
        if self.pod_name is not None:
            # The original MLBench did the same: its documentation posts both, and gets the pod.
            self.run_id = None

    def to_sample(self) -> Sample:
        """Return the sample without its owner. A pod's series have no rank."""
        metric, rank = split_name(self.name) if self.pod_name is None else (self.name, "")
        time_us, value = timestamps.to_microseconds(self.date), number_or_text(self.value)
        return Sample(metric, rank, time_us, value, self.cumulative, self.metadata)


def store(posted: Sequence[PostedSample], limit: SeriesLimit) -> None:
    """Store samples, in one transaction per owner. Repeating a body adds nothing.

    Samples that arrive after the end of their run are stored separately, outside its result.

    Raises:
        BadFieldError: a run or pod would have too many series; nothing is stored (400).
        NotFoundError: there is no such run or pod; nothing is stored (404).
        ConflictError: a run was imported; nothing is stored (409).
    """
    try:
        _store(posted, limit)
    except WrongOwnerError:
        runs = {sample.run_id for sample in posted if sample.run_id is not None}
        _ended.difference_update(runs)
        _ended.update(lifecycle.ended_among(runs))
        # Bodies that were stored before the error are not stored again.
        _store(posted, limit)


def _store(posted: Sequence[PostedSample], limit: SeriesLimit) -> None:
    by_owner: dict[str, list[Sample]] = {}
    for sample in posted:
        if sample.run_id is None:
            owner = pod_owner(sample.pod_name or "")
        else:
            owner = (added_owner if sample.run_id in _ended else run_owner)(sample.run_id)
        by_owner.setdefault(owner, []).append(sample.to_sample())
    keys = {owner: [sample[:2] for sample in samples] for owner, samples in by_owner.items()}
    for owner in by_owner:
        if len(by_owner) > 1 or not limit.has_admitted(owner, keys[owner]):
            _check_known(owner)
    for owner in by_owner:
        limit.check(owner, keys[owner])
    for owner, samples in by_owner.items():
        lines = to_posted_lines(samples)
        try:
            append_posted(owner, lines)
        except NotFoundError:
            with exclusive(owner):
                # It may have been deleted.
                _check_known(owner)
                open_posted(owner)
            append_posted(owner, lines)


def find_pod(name: str) -> str:
    """Return the name, if there is or was a pod of it.

    Raises:
        NotFoundError: no such pod exists, has run a rank or has samples (404).
    """
    pods = (
        Stream.select().where(Stream.owner == pod_owner(name)),
        Pod.select().where(Pod.name == name),
        Rank.select().where(Rank.worker == name),
    )
    if "\0" not in name and any(query.exists() for query in pods):
        return name
    raise NotFoundError(f"pod_name: pod {name!r} not found")


def _check_known(owner: str) -> None:
    kind, _, name = owner.partition("/")
    if kind == "pod":
        find_pod(name)
    else:
        lifecycle.check_own(lifecycle.find(int(name)))


def open_posted(owner: str) -> None:
    """Create the stream of an owner's posted samples, if there is none."""
    streams.create(StreamKey(owner, attempt=0, rank=-1, name=POSTED))


def append_posted(owner: str, lines: bytes) -> None:
    """Append a body's lines to the stream of an owner's posted samples, unless it has them.

    Raises:
        NotFoundError: there is no such stream, or no more (404).
        WrongOwnerError: they belong to the run's other owner.
    """
    _group.write((owner, lines))


def _append_all(posted: Sequence[tuple[str, bytes]]) -> Sequence[None]:
    """Store the new ones of these bodies, each of which has an owner."""
    by_owner: dict[str, dict[bytes, bytes]] = {}
    for owner, lines in posted:
        by_owner.setdefault(owner, {})[hashlib.sha256(lines).digest()] = lines
    for owner, bodies in by_owner.items():
        kind, _, name = owner.partition("/")
        with exclusive(owner):
            ended = run_sql(_IS_ENDED, int(name)).fetchone() if kind != "pod" else None
            if kind != "pod" and (ended is None) == (kind == "added"):
                raise WrongOwnerError(f"run {name} has {'ended' if ended else 'not ended'}")
            if kind == "added":
                # A client may repeat, after the end of the run, a body that the run has already.
                known = _KNOWN.format(", ".join("?" * len(bodies)))
                for (digest,) in run_sql(known, run_owner(int(name)), *bodies).fetchall():
                    bodies.pop(bytes(digest))
            if not bodies:
                continue
            remember = _REMEMBER.format(", ".join(["(?, ?)"] * len(bodies)))
            values = [value for digest in bodies for value in (owner, digest)]
            new = b"".join([bodies[bytes(row[0])] for row in run_sql(remember, *values).fetchall()])
            if not new:
                continue
            grown = run_sql(_GROW, len(new), owner).fetchone()
            if grown is None:
                raise NotFoundError(f"{owner.replace('/', ' ')} was deleted")
            stream_id, size = grown
            streams.add_chunk(stream_id, size - len(new), new)
            if ended is not None:
                now, added = time.time(), json.loads(ended[0] or "{}")
                samples = added.get("samples", 0) + new.count(b"\n")
                added = {"first_at": now, **added, "samples": samples, "last_at": now}
                run_sql("UPDATE run SET added = ? WHERE id = ?", json.dumps(added), int(name))
    notify("samples")
    return [None] * len(posted)


_group = GroupCommit(_append_all)
