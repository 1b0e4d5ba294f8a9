"""Delivery: takes samples out of the streams, and brings each to Prometheus or keeps it.

A sample is delivered once its stream's ``delivered`` offset has passed it. That offset moves in the
transaction that stores what is kept, after Prometheus has taken the rest. A controller killed in
between sends the same batch again, which changes nothing: the same samples are stored once.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from peewee import EXCLUDED, chunked
from prometheus_client import CollectorRegistry

from master.database import exclusive
from master.machine import StatedMachine
from master.models import Detail, KeptSample, Series, Stream, find_run
from master.recording.goals import note_goals
from master.recording.machines import note_machine
from master.recording.metering import WriterMetrics
from master.recording.plan import Plan, plan
from master.recording.remote_write import (
    RefusedError,
    RemoteWriter,
    TimeSeries,
    UnavailableError,
)
from master.recording.run_settings import note_settings
from master.recording.samples import Goal, Sample, SeriesKey, Settings, spell
from master.recording.streams import (
    POSTED,
    advance,
    forget_delivered,
    parse,
    read,
    read_lines,
    waiting,
)
from mlbench import names

log = logging.getLogger(__name__)

# One batch: about 10,000 samples.
BATCH_BYTES = 1 << 20
# Rows in one statement: databases have a limit on its parameters.
_ROWS = 500
# However long Prometheus asks to be left alone, it is asked again by then.
_LONGEST_WAIT_SECONDS = 60.0


def labels(owner: str, key: SeriesKey) -> dict[str, str]:
    """Return the labels that a series has in Prometheus."""
    kind, _, name = owner.partition("/")
    metric, rank = key
    if kind == "pod":
        return {"__name__": names.POD_METRIC, "pod": name, "metric": metric}
    found = {"__name__": names.RUN_METRIC, "run_id": name, "metric": metric}
    return found | {"rank": rank} if rank else found


def series_key(found: Mapping[str, str]) -> SeriesKey:
    """Return which of its owner's series has these labels."""
    return found["metric"], found.get("rank", "")


def send(writer: RemoteWriter, series: Sequence[TimeSeries]) -> list[TimeSeries]:
    """Send the series, and return the single samples that Prometheus refused.

    One bad sample makes Prometheus refuse the whole request, so a refused one is halved down to it.

    Raises:
        UnavailableError: Prometheus cannot take anything now.
    """
    if not series:
        return []
    try:
        writer.send(series)
    except RefusedError as error:
        if len(series) > 1:
            half = len(series) // 2
            return send(writer, series[:half]) + send(writer, series[half:])
        [one] = series
        if len(one.times_ms) > 1:
            return [refused for half in one.halves() for refused in send(writer, [half])]
        log.warning("Prometheus refused a sample, so it is kept: %s: %s", one, error)
        return [one]
    return []


class Delivery:
    """Delivers what waits in the streams, until it is stopped."""

    def __init__(self, writer: RemoteWriter, metrics: WriterMetrics | None = None) -> None:
        self._writer = writer
        self._metrics = metrics or WriterMetrics(CollectorRegistry())
        # Held while a batch may have been sent, and is not yet marked as delivered.
        self._delivering = threading.Lock()

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
            ExceptionGroup: some streams could not be delivered; the others were.
        """
        largest = 0
        failures = []
        with self._delivering:
            for stream in waiting():
                try:
                    largest = max(largest, self._deliver_batch(stream))
                except UnavailableError:
                    raise
                except Exception as error:
                    failures.append(error)
        if failures:
            raise ExceptionGroup("streams could not be delivered", failures)
        return largest

    @contextmanager
    def settled(self, owner: str) -> Iterator[None]:
        """Deliver what waits of an owner, and nothing more inside the block: time to count.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
        """
        with self._delivering:
            for stream in waiting(owner):
                self._deliver_batch(stream)
            yield

    def _deliver_batch(self, stream: Stream) -> int:
        data = _next_batch(stream)
        if not data:
            return 0
        now_us = time.time_ns() // 1000
        parsed = list(parse(stream, data, now_us))
        goals = [item for item in parsed if isinstance(item, Goal)]
        settings = [item for item in parsed if isinstance(item, Settings)]
        machines = [item for item in parsed if isinstance(item, StatedMachine)]
        samples = [item for item in parsed if isinstance(item, Sample)]
        planned = plan(samples, _last_ms(stream.owner), now_us // 1000)
        batch = self._send(stream.owner, planned)
        with exclusive(stream.owner):
            if advance(stream, len(data), len(samples)):
                _store_series(stream.owner, batch.send)
                if stream.name == POSTED:
                    _store_details(stream.owner, batch.send)
                _keep(stream.owner, batch.keep)
                run = find_run(stream.owner)
                if run is not None:
                    note_goals(run, goals, samples)
                    note_settings(run, settings)
                    note_machine(run, stream, machines)
                # What a run recorded stays until it was counted for the last time.
                if run is None or run.settled_at is not None:
                    forget_delivered(stream.owner)
        self._metrics.count_samples(
            delivered=sum(len(sent) for sent in batch.send.values()),
            kept=len(planned.keep),
            refused=len(batch.keep) - len(planned.keep),
        )
        return len(data)

    def _send(self, owner: str, batch: Plan) -> Plan:
        """Send what goes to Prometheus, and return the plan as it turned out."""
        series = [
            TimeSeries(
                labels(owner, key),
                [sample.time_us // 1000 for sample in samples],
                [float(sample.value) for sample in samples],
            )
            for key, samples in batch.send.items()
        ]
        refused = send(self._writer, series)
        if not refused:
            return batch
        return batch.without({(series_key(one.labels), one.times_ms[0]) for one in refused})


def _next_batch(stream: Stream) -> bytes:
    end = stream.delivered + BATCH_BYTES
    lines = read_lines(stream, stream.delivered, end)
    # A line longer than a batch is cut.
    return lines or (read(stream, stream.delivered, end) if stream.size >= end else b"")


def _last_ms(owner: str) -> dict[SeriesKey, int]:
    rows = Series.select(Series.metric, Series.rank, Series.last_ms).where(Series.owner == owner)
    return {(row.metric, row.rank): row.last_ms for row in rows}


def _store_series(owner: str, sent: Mapping[SeriesKey, Sequence[Sample]]) -> None:
    rows = [
        {
            "owner": owner,
            "metric": metric,
            "rank": rank,
            "first_ms": samples[0].time_us // 1000,
            "last_ms": samples[-1].time_us // 1000,
            "samples": len(samples),
        }
        for (metric, rank), samples in sent.items()
    ]
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
    rows = [
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
    ]
    for some in chunked(rows, _ROWS):
        KeptSample.insert_many(some).execute()
