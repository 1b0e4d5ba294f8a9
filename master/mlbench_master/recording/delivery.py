"""Delivery: move samples from the streams to Prometheus, or keep samples that it cannot store.

A sample is delivered once its stream's ``delivered`` offset has passed it. That offset moves in the
transaction that stores the kept samples, after Prometheus has taken the others. A controller that
is killed in between sends the same batch again, which changes nothing in Prometheus.

A stream that fails delays no other. It is tried again later, in smaller and smaller batches, and a
line that still fails is kept as malformed.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

from mlbench.contract.line_chunks import whole_lines
from mlbench.contract.series import SeriesKey
from mlbench_master.database.connection import exclusive, run_sql, store
from mlbench_master.database.models import Stream, find_run, run_owner
from mlbench_master.notify import Waiter
from mlbench_master.recording import late, not_recorded
from mlbench_master.recording.limits import admit, store_refused, summarize
from mlbench_master.recording.plan import Plan, plan
from mlbench_master.recording.remote_write import RemoteWriter, TimeSeries, UnavailableError
from mlbench_master.recording.run_facts import Fact, store_facts
from mlbench_master.recording.samples import (
    MALFORMED,
    Sample,
    Unrecorded,
    encoded_labels,
    show,
)
from mlbench_master.recording.storing import keep, store_plan
from mlbench_master.recording.streams import (
    METRICS,
    POSTED,
    advance,
    forget_delivered,
    parse,
    read_batch,
    waiting,
)
from mlbench_master.runs.lifecycle import find_begun
from mlbench_master.settings import InstallationLimits

log = logging.getLogger(__name__)

# One batch: about 10,000 samples.
BATCH_BYTES = 1 << 20
# Limit on small streams that share a transaction, because other writers wait for it.
_TOGETHER_BYTES = 64 << 10
# Each failure divides the batch size of a stream. A line that fails alone this often is given up.
_SMALLER = 32
_MAX_FAILURES = 5
_FIRST_BACKOFF_SECONDS = 0.05
_MAX_BACKOFF_SECONDS = 5.0
_RETRY_SECONDS = 1.0
# Maximum duration of a round. Rounds begin with the active run; runs are counted between rounds.
_ROUND_SECONDS = 0.5
_PAUSE_SECONDS = 0.005
# Maximum wait for a Retry-After of Prometheus.
_MAX_WAIT_SECONDS = 60.0
# Raw SQL, because a thousand ranks have fifty series each.
_LAST_MS = "SELECT metric, rank, last_ms FROM series WHERE owner = ?"


@dataclass
class _Retry:
    """The next try of a stream that failed."""

    batch_bytes: int = BATCH_BYTES
    failures: int = 0
    again_at: float = 0.0

    def back_off(self) -> None:
        self.failures += 1
        self.batch_bytes = max(1, self.batch_bytes // _SMALLER)
        backoff = min(_FIRST_BACKOFF_SECONDS * 2**self.failures, _MAX_BACKOFF_SECONDS)
        self.again_at = time.monotonic() + backoff


@dataclass(frozen=True)
class _Batch:
    """The next lines of a stream, parsed."""

    stream: Stream
    data: bytes
    samples: list[Sample]
    facts: list[Fact]


class _MovedError(Exception):
    """Somebody else has delivered, or deleted, some of these streams."""


class SampleDelivery:
    """Delivers the samples that wait in the streams.

    Methods raise UnavailableError while Prometheus cannot accept samples.
    """

    def __init__(self, writer: RemoteWriter, most_series: int = InstallationLimits.series) -> None:
        self._writer = writer
        self._most_series = most_series
        # Held while a batch may have been sent, but is not yet marked as delivered.
        self._delivering = threading.Lock()
        self._retries: dict[int, _Retry] = {}
        # The next round begins behind this stream.
        self._last_tried = 0
        # Send streams separately after a timeout, because one of them may have caused it.
        self._alone = False
        # The newest millisecond of each series of the owners that are being delivered.
        self._last_ms: dict[str, dict[SeriesKey, int]] = {}

    def run(
        self,
        waiter: Waiter,
        stop: Waiter,
        on_recovery: Callable[[], None],
        idle_seconds: float = 2.0,
    ) -> None:
        """Deliver until stopped: by ``waiter``, and while Prometheus is unavailable by ``stop``.

        ``on_recovery`` is called after the first delivery, and the first after each such time.
        """
        wait, wait_seconds, recovering = waiter.wait, idle_seconds, True
        while not wait(wait_seconds):
            try:
                wait = waiter.wait
                delivered = self.deliver_waiting()
                if recovering:
                    on_recovery()
                    recovering = False
                wait_seconds = _PAUSE_SECONDS if delivered >= BATCH_BYTES // 2 else idle_seconds
                if self._retries:
                    wait_seconds = min(wait_seconds, _RETRY_SECONDS)
            except UnavailableError as error:
                recovering = True
                wait = stop.wait  # whatever comes meanwhile
                wait_seconds = error.retry_after or min(max(wait_seconds, idle_seconds) * 2, 5.0)
                wait_seconds = min(wait_seconds, _MAX_WAIT_SECONDS)
                log.warning(
                    "Prometheus takes no samples, trying again in %.1f s: %s", wait_seconds, error
                )
            except Exception:
                wait_seconds = _RETRY_SECONDS
                log.exception("delivery failed, trying again")

    def deliver_waiting(self) -> int:
        """Deliver a batch of each waiting stream of active runs, and of others for a while.

        Returns:
            Size of the largest batch in bytes, or ``BATCH_BYTES`` if streams were left untried.
        """
        active, largest = {run_owner(run_id) for run_id in find_begun()}, 0
        until = time.monotonic() + _ROUND_SECONDS
        with self._delivering:
            for streams in self._next_round(active):
                largest = max(largest, self._deliver(streams))
                if streams[0].owner not in active and time.monotonic() > until:
                    return BATCH_BYTES
            self._alone = False
        return largest

    @contextmanager
    def settled(self, owner: str) -> Iterator[None]:
        """Deliver a batch of each of an owner's streams, then nothing until the block ends."""
        with self._delivering:
            for streams in self._group(waiting(owner)):
                self._deliver(streams)
            try:
                yield
            finally:
                # It may have been rewound.
                self._last_ms.pop(owner, None)

    def _next_round(self, first: AbstractSet[str]) -> Iterator[list[Stream]]:
        """Yield the streams to try now: the first owners', then the ones after the last one tried.

        That one is the last of all. So each has its turn, even if Prometheus gives no answer for
        the content of one.
        """
        streams_waiting = waiting()
        ids = {stream.id for stream in streams_waiting}
        owners = {stream.owner for stream in streams_waiting} | first
        self._retries = {id_: retry for id_, retry in self._retries.items() if id_ in ids}
        self._last_ms = {owner: last for owner, last in self._last_ms.items() if owner in owners}
        now = time.monotonic()
        due = [stream for stream in streams_waiting if self._retry(stream).again_at <= now]
        last = self._last_tried
        due.sort(key=lambda stream: (stream.id <= last, stream.id))
        due.sort(key=lambda stream: stream.owner not in first or stream.id == last)
        return self._group(due)

    def _group(self, streams: Iterable[Stream]) -> Iterator[list[Stream]]:
        """Group streams that follow each other, of one owner and kind, up to a batch of bytes."""
        group: list[Stream] = []
        size = 0
        for stream in streams:
            is_alone = self._alone or stream.id in self._retries
            its_size = _TOGETHER_BYTES if is_alone else stream.size - stream.delivered
            is_like = group and (group[0].owner, group[0].name) == (stream.owner, stream.name)
            if group and not (is_like and size + its_size <= _TOGETHER_BYTES):
                yield group
                group, size = [], 0
            group.append(stream)
            size += its_size
        if group:
            yield group

    def _retry(self, stream: Stream) -> _Retry:
        return self._retries.get(stream.id) or _Retry()

    def _deliver(self, streams: Sequence[Stream]) -> int:
        """Deliver a batch of each of an owner's streams, or of none if that fails.

        Returns:
            The bytes of the largest batch; 0 if it failed.
        """
        self._last_tried = streams[-1].id
        pieces: list[tuple[Stream, bytes]] = []
        try:
            pieces = [
                (stream, _next_batch(stream, self._retry(stream).batch_bytes)) for stream in streams
            ]
            self._deliver_batches(pieces)
        except UnavailableError:
            self._alone = True
            raise
        except Exception as error:
            if len(streams) > 1:
                return max(self._deliver([stream]) for stream in streams)
            return self._postpone(streams[0], pieces[0][1] if pieces else b"", error)
        for stream in streams:
            if retry := self._retries.get(stream.id):
                retry.failures, retry.batch_bytes = 0, 2 * retry.batch_bytes
                if retry.batch_bytes >= BATCH_BYTES:
                    self._retries.pop(stream.id)
        return max(len(data) for _, data in pieces)

    def _postpone(self, stream: Stream, data: bytes, error: Exception) -> int:
        """Try a stream again later, in smaller batches; keep a line that failed too often."""
        log.error("a batch of %s could not be delivered", stream.owner, exc_info=error)
        retry = self._retry(stream)
        is_one_line = data.find(b"\n") in (-1, len(data) - 1)
        if is_one_line and retry.failures >= _MAX_FAILURES:
            # If the database is the reason, this fails too, and nothing is lost.
            self._retries.pop(stream.id)
            log.error("a line of %s that could not be delivered is kept as malformed", stream.owner)
            text = show(f"not delivered: {type(error).__name__}: {error!s:.500}: ".encode() + data)
            sample = Sample(MALFORMED, _rank(stream), time.time_ns() // 1000, text)
            with exclusive(stream.owner):
                if advance(stream, len(data), recorded=1):
                    keep(stream.owner, [sample])
                    if (run := find_run(stream.owner)) is not None:
                        not_recorded.add(run, {"malformed_lines": 1})
            return len(data)
        retry.back_off()
        self._retries[stream.id] = retry
        return 0

    def _deliver_batches(self, pieces: Iterable[tuple[Stream, bytes]]) -> None:
        """Deliver these lines of an owner's streams of one kind, all or none."""
        now_us = time.time_ns() // 1000
        batches = [_parse(stream, data, now_us) for stream, data in pieces if data]
        if not batches:
            return
        owner = batches[0].stream.owner
        if owner not in self._last_ms:
            rows = run_sql(_LAST_MS, owner).fetchall()
            self._last_ms[owner] = {(metric, rank): last_ms for metric, rank, last_ms in rows}
        last_ms = self._last_ms[owner]
        samples = [sample for batch in batches for sample in batch.samples]
        new = dict.fromkeys(key for sample in samples if (key := sample[:2]) not in last_ms)
        refused_keys = admit(owner, [*new], self._most_series)
        refused: list[Sample] = []
        if refused_keys:
            for batch in batches:
                refused += _take_refused(batch, refused_keys, now_us, self._most_series)
            samples = [sample for batch in batches for sample in batch.samples]
        planned = plan(samples, last_ms, now_us // 1000)
        sent = self._send(owner, planned)
        # Until it is known what is stored.
        del self._last_ms[owner]
        with exclusive(owner):
            moved = [
                advance(batch.stream, len(batch.data), len(batch.samples)) for batch in batches
            ]
            has_advanced = all(moved)
            if any(moved) and not has_advanced:
                raise _MovedError
            if has_advanced:
                _store(owner, batches, sent, refused, self._most_series)
        if has_advanced:
            last_ms.update((key, part[-1].time_us // 1000) for key, part in sent.send.items())
            self._last_ms[owner] = last_ms
        self._writer.metrics.count_samples(
            delivered=sum(len(samples) for samples in sent.send.values()),
            kept=len(planned.keep),
            refused=len(sent.keep) - len(planned.keep),
        )

    def _send(self, owner: str, planned: Plan) -> Plan:
        """Send samples to Prometheus; return the plan that also keeps those it refused."""
        key_of = {encoded_labels(owner, key): key for key in planned.send}
        refused = self._writer.send_all(
            TimeSeries(
                labels, [(sample.time_us // 1000, float(sample.value)) for sample in samples]
            )
            for labels, samples in zip(key_of, planned.send.values(), strict=True)
        )
        taken_out = {(key_of[series.labels], series.samples[0][0]) for series in refused}
        return planned.without(taken_out) if refused else planned


def _parse(stream: Stream, data: bytes, now_us: int) -> _Batch:
    statements = list(parse(stream, data, now_us))
    samples = [statement for statement in statements if isinstance(statement, Sample)]
    facts = [statement for statement in statements if not isinstance(statement, Sample)]
    return _Batch(stream, data, samples, facts)


def _take_refused(
    batch: _Batch, refused: Collection[SeriesKey], now_us: int, most: int
) -> list[Sample]:
    """Replace the samples of refused series by one that counts them, and return them."""
    taken = [sample for sample in batch.samples if sample[:2] in refused]
    if taken:
        batch.samples[:] = [sample for sample in batch.samples if sample[:2] not in refused]
        batch.samples.append(summarize(taken, _rank(batch.stream), now_us, most))
    return taken


def _store(
    owner: str, batches: Sequence[_Batch], sent: Plan, refused: Sequence[Sample], most: int
) -> None:
    store_plan(batches[0].stream, sent)
    run = find_run(owner)
    if run is not None:
        for batch in batches:
            store_facts(run, batch.stream, batch.facts, batch.samples)
        store_refused(run, refused, most)
        if run.sealed_at is not None:
            store(run, sealed_at=None)
    elif batches[0].stream.name == METRICS:
        facts = [fact for batch in batches for fact in batch.facts]
        lacking = [fact.counts for fact in facts if isinstance(fact, Unrecorded)]
        lacking += [{"refused_values": len(refused)}] if refused else []
        late.count(owner, sum(len(batch.samples) for batch in batches), lacking)
    # A run's samples stay until they were counted for the last time.
    if run is None or run.settled_at is not None:
        forget_delivered(owner)


def _next_batch(stream: Stream, most_bytes: int) -> bytes:
    """Return the next lines of a stream: up to ``most_bytes``, but at least one line."""
    lines = read_batch(stream, stream.delivered, BATCH_BYTES)
    if len(lines) <= most_bytes:
        return lines
    return whole_lines(lines[:most_bytes]) or lines[: lines.find(b"\n") + 1] or lines


def _rank(stream: Stream) -> str:
    return "" if stream.name == POSTED else str(stream.rank)
