"""Indexing: parses the lines of streams once, into blocks and facts about their run.

A line is indexed once its stream's ``indexed`` offset has passed it. That offset moves in the
transaction that writes its samples and facts, so a controller that is killed in between indexes the
same lines again, and none twice.

A stream that fails delays no other. It is tried again later, in smaller and smaller batches, and a
line that still fails is stored as malformed.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from mlbench.contract.line_chunks import whole_lines
from mlbench_master.database.connection import exclusive, store
from mlbench_master.database.models import Stream, find_run, run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.recording import blocks, late, not_recorded
from mlbench_master.recording.limits import admit, admitted_series, store_refused, summarize
from mlbench_master.recording.run_facts import store_facts
from mlbench_master.recording.samples import MALFORMED, Content, Sample, Unrecorded, show
from mlbench_master.recording.streams import (
    METRICS,
    POSTED,
    advance,
    forget_indexed,
    parse,
    read_batch,
    waiting,
)
from mlbench_master.runs.lifecycle import find_begun
from mlbench_master.settings import InstallationLimits

log = logging.getLogger(__name__)

# One batch: about 10,000 samples, in a transaction that others wait for.
BATCH_BYTES = 1 << 20
# Each failure makes the batches of a stream smaller; after so many, a single line is given up.
_SMALLER = 32
_MAX_FAILURES = 5
_RETRY_SECONDS = 1.0
_KEY = itemgetter(0, 1)


@dataclass
class _Retry:
    """The next try of a stream that failed."""

    batch_bytes: int = BATCH_BYTES
    failures: int = 0
    again_at: float = 0.0

    def back_off(self) -> None:
        self.failures += 1
        self.batch_bytes = max(1, self.batch_bytes // _SMALLER)
        backoff = min(0.05 * 2**self.failures, 5.0)
        self.again_at = time.monotonic() + backoff


@dataclass(frozen=True)
class _Batch:
    """The next lines of a stream."""

    stream: Stream
    data: bytes
    content: Content


class _MovedError(Exception):
    """Somebody else has indexed, or deleted, some of these streams."""


class Indexer:
    """Indexes the lines that wait in the streams."""

    def __init__(self, most_series: int = InstallationLimits.series) -> None:
        self._most_series = most_series
        self._retries: dict[int, _Retry] = {}
        # Metric and rank of the admitted series, of the owners whose lines are being indexed.
        self._known: dict[str, set[tuple[str, str]]] = {}

    def run(self, waiter: Waiter, idle_seconds: float = 2.0) -> None:
        """Index until stopped."""
        wait_seconds = idle_seconds
        while not waiter.wait(wait_seconds):
            try:
                has_more = self.index_waiting()
                wait_seconds = 0.0 if has_more else idle_seconds
                if self._retries:
                    wait_seconds = min(wait_seconds, _RETRY_SECONDS)
            except Exception:
                wait_seconds = _RETRY_SECONDS
                log.exception("indexing failed, trying again")

    def index_waiting(self) -> bool:
        """Index a batch of each waiting stream, those of active runs first.

        Returns:
            Whether a batch was full, so that more may wait.
        """
        active = {run_owner(run_id) for run_id in find_begun()}
        streams = waiting()
        ids = {stream.id for stream in streams}
        owners = {stream.owner for stream in streams} | active
        self._retries = {id_: retry for id_, retry in self._retries.items() if id_ in ids}
        self._known = {owner: keys for owner, keys in self._known.items() if owner in owners}
        now = time.monotonic()
        due = [stream for stream in streams if self._retry(stream).again_at <= now]
        due.sort(key=lambda stream: (stream.owner not in active, stream.owner, stream.name))
        has_more = False
        for group in self._group(due):
            has_more |= self._index(group) >= BATCH_BYTES // 2
        if due:
            notify("blocks")
        return has_more

    def _group(self, streams: Iterable[Stream]) -> Iterator[list[Stream]]:
        """Group streams that follow each other, of one owner and kind, up to a batch of bytes."""
        group: list[Stream] = []
        size = 0
        for stream in streams:
            own_size = BATCH_BYTES if stream.id in self._retries else stream.size - stream.indexed
            is_like = group and (group[0].owner, group[0].name) == (stream.owner, stream.name)
            if group and not (is_like and size + own_size <= BATCH_BYTES):
                yield group
                group, size = [], 0
            group.append(stream)
            size += own_size
        if group:
            yield group

    def _retry(self, stream: Stream) -> _Retry:
        return self._retries.get(stream.id) or _Retry()

    def _index(self, streams: Sequence[Stream]) -> int:
        """Index a batch of each of an owner's streams, or of none if that fails.

        Returns:
            The bytes of the largest batch; 0 if it failed.
        """
        pieces: list[tuple[Stream, bytes]] = []
        try:
            for stream in streams:
                lines = read_batch(stream, stream.indexed, BATCH_BYTES)
                if len(lines) > (most_bytes := self._retry(stream).batch_bytes):
                    first = lines[: lines.find(b"\n") + 1]
                    lines = whole_lines(lines[:most_bytes]) or first or lines  # at least one line
                pieces.append((stream, lines))
            self._index_batches(pieces)
        except Exception as error:
            if len(streams) > 1:
                return max(self._index([stream]) for stream in streams)
            return self._postpone(streams[0], pieces[0][1] if pieces else b"", error)
        for stream in streams:
            if retry := self._retries.get(stream.id):
                retry.failures, retry.batch_bytes = 0, 2 * retry.batch_bytes
                if retry.batch_bytes >= BATCH_BYTES:
                    self._retries.pop(stream.id)
        return max(len(data) for _, data in pieces)

    def _postpone(self, stream: Stream, data: bytes, error: Exception) -> int:
        """Try a stream again later, in smaller batches; give up a line that failed too often."""
        log.error("a batch of %s could not be indexed", stream.owner, exc_info=error)
        retry = self._retry(stream)
        is_one_line = data.find(b"\n") in (-1, len(data) - 1)
        if is_one_line and retry.failures >= _MAX_FAILURES:
            # If the database is the reason, this fails too, and nothing is lost.
            self._retries.pop(stream.id)
            log.error("a line of %s that could not be indexed is malformed", stream.owner)
            text = show(f"not indexed: {type(error).__name__}: {error!s:.500}: ".encode() + data)
            sample = Sample(MALFORMED, _rank(stream), time.time_ns() // 1000, text)
            with exclusive(stream.owner):
                if advance(stream, len(data), recorded=1):
                    blocks.add(stream.owner, [sample], is_posted=stream.name == POSTED)
                    if (run := find_run(stream.owner)) is not None:
                        not_recorded.add(run, {"malformed_lines": 1})
            return len(data)
        retry.back_off()
        self._retries[stream.id] = retry
        return 0

    def _index_batches(self, pieces: Iterable[tuple[Stream, bytes]]) -> None:
        """Index these lines of an owner's streams of one kind, all or none."""
        now_us = time.time_ns() // 1000
        batches = [_Batch(*piece, parse(*piece, now_us)) for piece in pieces if piece[1]]
        if not batches:
            return
        owner = batches[0].stream.owner
        if owner not in self._known:
            self._known[owner] = admitted_series(owner)
        known = self._known[owner]
        samples = chain.from_iterable(batch.content.samples for batch in batches)
        keys = [key for key in dict.fromkeys(map(_KEY, samples)) if key not in known]
        refused_keys = admit(owner, keys, self._most_series)
        refused: list[Sample] = []
        if refused_keys:
            for batch in batches:
                # A sample that counts them replaces the samples of refused series.
                own = batch.content.samples
                taken = [sample for sample in own if sample[:2] in refused_keys]
                if taken:
                    own[:] = [sample for sample in own if sample[:2] not in refused_keys]
                    own.append(summarize(taken, _rank(batch.stream), now_us, self._most_series))
                    refused += taken
        with exclusive(owner):
            moved = [
                advance(batch.stream, len(batch.data), len(batch.content.samples))
                for batch in batches
            ]
            if any(moved) and not all(moved):
                raise _MovedError
            if all(moved):
                _store(owner, batches, refused, self._most_series)
        known.update(set(keys) - refused_keys)


def _store(owner: str, batches: Sequence[_Batch], refused: Sequence[Sample], most: int) -> None:
    samples = [sample for batch in batches for sample in batch.content.samples]
    blocks.add(owner, samples, is_posted=batches[0].stream.name == POSTED)
    run = find_run(owner)
    if run is not None:
        for batch in batches:
            store_facts(run, batch.stream, batch.content)
        store_refused(run, refused, most)
        if run.sealed_at is not None:
            store(run, sealed_at=None)
    elif batches[0].stream.name == METRICS:
        facts = [fact for batch in batches for fact in batch.content.facts]
        lacking = [fact.counts for fact in facts if isinstance(fact, Unrecorded)]
        lacking += [{"refused_values": len(refused)}] if refused else []
        late.count(owner, len(samples), lacking)
    for batch in batches:
        forget_indexed(batch.stream)


def _rank(stream: Stream) -> str:
    return "" if stream.name == POSTED else str(stream.rank)
