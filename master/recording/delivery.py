"""Delivery: takes samples out of the streams, and brings each to Prometheus or keeps it.

A sample is delivered once its stream's ``delivered`` offset has passed it. That offset moves in the
transaction that stores what is kept, after Prometheus has taken the rest. A controller killed in
between sends the same batch again, which changes nothing: the same samples are stored once.

A stream that fails delays no other: it is tried again after a while, in smaller and smaller pieces.
A line that still fails is kept as malformed, and the rest goes on.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from peewee import EXCLUDED, chunked
from prometheus_client import CollectorRegistry

from master.database import exclusive
from master.models import Detail, KeptSample, Series, Stream, find_run
from master.recording.goals import note_goals
from master.recording.limits import admit, note_refused, split, summarize
from master.recording.machines import note_machine
from master.recording.metering import WriterMetrics
from master.recording.plan import Plan, plan
from master.recording.remote_write import RemoteWriter, TimeSeries, UnavailableError
from master.recording.run_settings import note_settings
from master.recording.samples import (
    MALFORMED,
    Sample,
    SeriesKey,
    Settings,
    Stated,
    show,
    spell,
    whole_lines,
)
from master.recording.sending import labels, requests, send, series_key
from master.recording.streams import (
    POSTED,
    advance,
    forget_delivered,
    parse,
    read,
    read_lines,
    waiting,
)
from master.settings import Limits
from mlbench.records import Goal, StatedMachine

log = logging.getLogger(__name__)

# One batch: about 10,000 samples.
BATCH_BYTES = 1 << 20
# A stream that fails is tried with so much smaller batches, so often before a line is given up.
_SMALLER = 32
_MOST_FAILURES = 5
_FIRST_PATIENCE_SECONDS = 0.05
_LONGEST_PATIENCE_SECONDS = 5.0
# Rows in one statement: databases have a limit on its parameters.
_ROWS = 500
# However long Prometheus asks to be left alone, it is asked again by then.
_LONGEST_WAIT_SECONDS = 60.0


@dataclass
class _Trouble:
    """A stream that could not be delivered, and how it is tried again."""

    batch_bytes: int = BATCH_BYTES
    failures: int = 0
    again_at: float = 0.0

    def note_failure(self) -> None:
        self.failures += 1
        self.batch_bytes = max(1, self.batch_bytes // _SMALLER)
        patience = min(_FIRST_PATIENCE_SECONDS * 2**self.failures, _LONGEST_PATIENCE_SECONDS)
        self.again_at = time.monotonic() + patience

    def note_success(self) -> None:
        self.failures = 0
        self.batch_bytes *= 2


@dataclass
class _Said:
    """What a batch says."""

    samples: list[Sample] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    settings: list[Settings] = field(default_factory=list)
    machines: list[StatedMachine] = field(default_factory=list)

    @classmethod
    def of(cls, stated: Iterable[Stated]) -> Self:
        said = cls()
        for item in stated:
            match item:
                case Sample():
                    said.samples.append(item)
                case Goal():
                    said.goals.append(item)
                case Settings():
                    said.settings.append(item)
                case StatedMachine():
                    said.machines.append(item)
        return said


class Delivery:
    """Delivers what waits in the streams, until it is stopped."""

    def __init__(
        self,
        writer: RemoteWriter,
        metrics: WriterMetrics | None = None,
        most_series: int = Limits.series,
    ) -> None:
        self._writer = writer
        self._metrics = metrics or WriterMetrics(CollectorRegistry())
        self._most_series = most_series
        # Held while a batch may have been sent, and is not yet marked as delivered.
        self._delivering = threading.Lock()
        self._troubles: dict[int, _Trouble] = {}
        # The stream that was tried last: the next round begins behind it.
        self._last_tried = 0

    def run(
        self,
        stop: threading.Event,
        on_recovery: Callable[[], None],
        idle_seconds: float = 0.1,
    ) -> None:
        """Deliver for ever, waiting out the times in which Prometheus takes nothing.

        ``on_recovery`` is called at the start, and after each such time.
        """
        patience, recovering = idle_seconds, True
        while not stop.wait(patience):
            try:
                delivered = self.deliver_waiting()
                if recovering:
                    on_recovery()
                    recovering = False
            except UnavailableError as error:
                recovering = True
                patience = error.retry_after or min(max(patience, idle_seconds) * 2, 5.0)
                patience = min(patience, _LONGEST_WAIT_SECONDS)
                log.warning(
                    "Prometheus takes no samples, trying again in %.1f s: %s", patience, error
                )
            except Exception:
                patience = 1.0
                log.exception("delivery failed, trying again")
            else:
                # What trickles in is let gather: a request for each sample would be a lot of work.
                patience = 0.0 if delivered >= BATCH_BYTES // 2 else idle_seconds

    def deliver_waiting(self) -> int:
        """Deliver one batch of each stream that has something; return the bytes of the largest.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        with self._delivering:
            return max(map(self._deliver, self._next_round()), default=0)

    @contextmanager
    def settled(self, owner: str) -> Iterator[None]:
        """Deliver what waits of an owner, and nothing more inside the block: time to count.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        with self._delivering:
            for stream in waiting(owner):
                self._deliver(stream)
            yield

    def _next_round(self) -> list[Stream]:
        """Return the streams to try now, each in its turn."""
        found = waiting()
        ids = {stream.id for stream in found}
        self._troubles = {id_: one for id_, one in self._troubles.items() if id_ in ids}
        now = time.monotonic()
        due = [one for one in found if self._trouble(one).again_at <= now]
        # If Prometheus gives no answer for the content of one, the others have their turn.
        return sorted(due, key=lambda one: (one.id <= self._last_tried, one.id))

    def _trouble(self, stream: Stream) -> _Trouble:
        return self._troubles.get(stream.id) or _Trouble()

    def _deliver(self, stream: Stream) -> int:
        """Deliver a batch of a stream, and return its bytes; 0 if it failed, to be tried again.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        self._last_tried = stream.id
        trouble = self._trouble(stream)
        data = b""
        try:
            data = _next_batch(stream, trouble.batch_bytes)
            self._deliver_batch(stream, data)
        except UnavailableError:
            raise
        except Exception as error:
            log.exception("a batch of %s could not be delivered", stream.owner)
            if _is_one_line(data) and trouble.failures >= _MOST_FAILURES:
                # Where the database takes nothing at all, it does not take this either.
                self._troubles.pop(stream.id)
                return _keep_whole(stream, data, error)
            trouble.note_failure()
            self._troubles[stream.id] = trouble
            return 0
        trouble.note_success()
        if trouble.batch_bytes >= BATCH_BYTES:
            self._troubles.pop(stream.id, None)
        return len(data)

    def _deliver_batch(self, stream: Stream, data: bytes) -> None:
        if not data:
            return
        now_us = time.time_ns() // 1000
        said = _Said.of(parse(stream, data, now_us))
        last_ms = _last_ms(stream.owner)
        samples, refused = self._limit(stream, said.samples, last_ms, now_us)
        planned = plan(samples, last_ms, now_us // 1000)
        batch = self._send(stream.owner, planned)
        with exclusive(stream.owner):
            if advance(stream, len(data), len(samples)):
                _store_series(stream.owner, batch.send)
                if stream.name == POSTED:
                    _store_details(stream.owner, batch.send)
                _keep(stream.owner, batch.keep)
                run = find_run(stream.owner)
                if run is not None:
                    note_goals(run, said.goals, samples)
                    note_settings(run, said.settings)
                    note_machine(run, stream, said.machines)
                    note_refused(run, refused, self._most_series)
                # What a run recorded stays until it was counted for the last time.
                if run is None or run.settled_at is not None:
                    forget_delivered(stream.owner)
        self._metrics.count_samples(
            delivered=sum(len(sent) for sent in batch.send.values()),
            kept=len(planned.keep),
            refused=len(batch.keep) - len(planned.keep),
        )

    def _limit(
        self,
        stream: Stream,
        samples: Sequence[Sample],
        last_ms: Mapping[SeriesKey, int],
        now_us: int,
    ) -> tuple[Sequence[Sample], Sequence[Sample]]:
        """Return what to deliver of a batch, and the samples of series that its owner may not have.

        Of these, one sample tells.
        """
        # In their order, so that the same are refused if the batch is delivered again.
        unsent = [key for key in dict.fromkeys(s[:2] for s in samples) if key not in last_ms]
        admitted, refused = split(samples, admit(stream.owner, unsent, self._most_series))
        if refused:
            rank = "" if stream.name == POSTED else str(stream.rank)
            admitted = [*admitted, summarize(refused, rank, now_us, self._most_series)]
        return admitted, refused

    def _send(self, owner: str, batch: Plan) -> Plan:
        """Send what goes to Prometheus, and return the plan as it turned out."""
        series = (
            TimeSeries(
                labels(owner, key),
                [sample.time_us // 1000 for sample in samples],
                [float(sample.value) for sample in samples],
            )
            for key, samples in batch.send.items()
        )
        refused = [one for request in requests(series) for one in send(self._writer, request)]
        if not refused:
            return batch
        return batch.without({(series_key(one.labels), one.times_ms[0]) for one in refused})


def _next_batch(stream: Stream, most_bytes: int) -> bytes:
    """Return the next lines of a stream: so many bytes of them, or at least one line."""
    end = stream.delivered + BATCH_BYTES
    lines = read_lines(stream, stream.delivered, end)
    if not lines:
        # A line longer than a batch is cut.
        return read(stream, stream.delivered, end) if stream.size >= end else b""
    if len(lines) <= most_bytes:
        return lines
    return whole_lines(lines[:most_bytes]) or lines[: lines.find(b"\n") + 1] or lines


def _is_one_line(data: bytes) -> bool:
    return data.find(b"\n") in (-1, len(data) - 1)


def _keep_whole(stream: Stream, data: bytes, error: Exception) -> int:
    """Keep what could never be delivered as one malformed sample, and return its bytes."""
    log.error("what could not be delivered of %s is kept as malformed", stream.owner)
    rank = "" if stream.name == POSTED else str(stream.rank)
    text = show(f"not delivered: {type(error).__name__}: {error!s:.500}: ".encode() + data)
    with exclusive(stream.owner):
        if advance(stream, len(data), recorded=1):
            _keep(stream.owner, [Sample(MALFORMED, rank, time.time_ns() // 1000, text)])
    return len(data)


def _last_ms(owner: str) -> dict[SeriesKey, int]:
    rows = Series.select(Series.metric, Series.rank, Series.last_ms).where(Series.owner == owner)
    return {(row.metric, row.rank): row.last_ms for row in rows}


def _store_series(owner: str, sent: Mapping[SeriesKey, Sequence[Sample]]) -> None:
    rows = (
        {
            "owner": owner,
            "metric": metric,
            "rank": rank,
            "first_ms": samples[0].time_us // 1000,
            "last_ms": samples[-1].time_us // 1000,
            "samples": len(samples),
        }
        for (metric, rank), samples in sent.items()
    )
    for some in chunked(rows, _ROWS):
        Series.insert_many(some).on_conflict(
            conflict_target=[Series.owner, Series.metric, Series.rank],
            update={
                Series.last_ms: EXCLUDED.last_ms,
                Series.samples: Series.samples + EXCLUDED.samples,
            },
        ).execute()


def _store_details(owner: str, sent: Mapping[SeriesKey, Sequence[Sample]]) -> None:
    for (metric, rank), samples in sent.items():
        details = [(s.time_us, s.cumulative, s.metadata) for s in samples if _has_details(s)]
        if details:
            Detail.create(
                owner=owner,
                metric=metric,
                rank=rank,
                first_ms=details[0][0] // 1000,
                last_ms=details[-1][0] // 1000,
                samples=details,
            )


def _has_details(sample: Sample) -> bool:
    given = sample.cumulative is not None or sample.metadata is not None
    return given or sample.time_us % 1000 != 0


def _keep(owner: str, samples: Iterable[Sample]) -> None:
    rows = (
        {
            "owner": owner,
            "metric": sample.metric,
            "rank": sample.rank,
            "time_us": sample.time_us,
            "value": spell(sample.value),
            "cumulative": sample.cumulative,
            "metadata": sample.metadata,
        }
        for sample in samples
    )
    for some in chunked(rows, _ROWS):
        KeptSample.insert_many(some).execute()
