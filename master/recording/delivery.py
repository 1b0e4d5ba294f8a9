"""Delivery: takes samples out of the streams, and brings each to Prometheus or keeps it.

A sample is delivered once its stream's ``delivered`` offset has passed it. That offset moves in the
transaction that stores what is kept, after Prometheus has taken the rest. A controller killed in
between sends the same batch again, which changes nothing: the same samples are stored once.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from master.models import KeptSample, Run, Series, Stream, database
from master.recording.remote_write import (
    RefusedError,
    RemoteWriter,
    TimeSeries,
    UnavailableError,
)
from master.recording.samples import Goal, Sample, SeriesKey, parse_lines, spell
from master.recording.streams import (
    forget_delivered,
    rank_label,
    read,
    read_lines,
    waiting,
)
from mlbench import names

log = logging.getLogger(__name__)

# One batch: about 10,000 samples.
BATCH_BYTES = 1 << 20
# A sample from the future makes Prometheus refuse every sample of today, so none is let in.
FUTURE_MS = 60_000
# Below `out_of_order_time_window` in prometheus.yml: older ones are refused for ever.
PAST_MS = 23 * 3600 * 1000


@dataclass(frozen=True)
class Plan:
    """Which samples go to Prometheus, by series and in order of time, and which are kept."""

    send: Mapping[SeriesKey, Sequence[tuple[int, float]]]
    keep: Sequence[Sample]


def plan(samples: Iterable[Sample], last_ms: Mapping[SeriesKey, int], now_ms: int) -> Plan:
    """Decide where each sample goes. Prometheus gets strictly increasing milliseconds per series.

    ``last_ms`` holds the newest millisecond that Prometheus has of each series.
    """
    last = dict(last_ms)
    send: dict[SeriesKey, list[tuple[int, float]]] = {}
    keep: list[Sample] = []
    for sample in samples:
        key, ms = (sample.metric, sample.rank), sample.time_us // 1000
        in_reach = max(now_ms - PAST_MS, last.get(key, 0) + 1) <= ms <= now_ms + FUTURE_MS
        if isinstance(sample.value, str) or not in_reach:
            keep.append(sample)
            continue
        last[key] = ms
        send.setdefault(key, []).append((ms, sample.value))
    return Plan(send, keep)


def labels(owner: str, key: SeriesKey) -> dict[str, str]:
    """Return the labels that a series has in Prometheus."""
    kind, _, name = owner.partition("/")
    metric, rank = key
    if kind == "pod":
        return {"__name__": names.POD_METRIC, "pod": name, "metric": metric}
    found = {"__name__": names.RUN_METRIC, "run_id": name, "metric": metric}
    return found | {"rank": rank} if rank else found


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
        if len(one.samples) > 1:
            half = len(one.samples) // 2
            return send(writer, [TimeSeries(one.labels, one.samples[:half])]) + send(
                writer, [TimeSeries(one.labels, one.samples[half:])]
            )
        log.warning("Prometheus refused %s %s, so it is kept: %s", one.labels, one.samples, error)
        return [one]
    return []


class Delivery:
    """Delivers what waits in the streams, until it is stopped."""

    def __init__(self, writer: RemoteWriter) -> None:
        self._writer = writer
        # Held while a batch may have been sent, and is not yet marked as delivered.
        self._delivering = threading.Lock()

    def run(self, stop: threading.Event, idle_seconds: float = 0.1) -> None:
        """Deliver for ever, waiting out the times in which Prometheus takes nothing."""
        patience = idle_seconds
        while not stop.wait(patience):
            try:
                progress = self.deliver_waiting()
            except UnavailableError as error:
                patience = min(max(patience, idle_seconds) * 2, 5.0)
                log.warning(
                    "Prometheus takes no samples, trying again in %.1f s: %s", patience, error
                )
            except Exception:
                patience = 1.0
                log.exception("delivery failed, trying again")
            else:
                patience = 0.0 if progress else idle_seconds

    def deliver_waiting(self) -> bool:
        """Deliver one batch of each stream that has something; return whether there was any.

        Raises:
            UnavailableError: Prometheus cannot take anything now.
            ExceptionGroup: some streams could not be delivered; the others were.
        """
        progress = False
        failures = []
        with self._delivering:
            for stream in waiting():
                try:
                    progress |= self._deliver_batch(stream)
                except UnavailableError:
                    raise
                except Exception as error:
                    failures.append(error)
        if failures:
            raise ExceptionGroup("streams could not be delivered", failures)
        return progress

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

    def _deliver_batch(self, stream: Stream) -> bool:
        data = _next_batch(stream)
        if not data:
            return False
        now_us = time.time_ns() // 1000
        parsed = list(parse_lines(data, rank_label(stream), received_us=now_us))
        samples = [item for item in parsed if isinstance(item, Sample)]
        batch = plan(samples, _last_ms(stream.owner), now_us // 1000)
        refused = send(
            self._writer,
            [TimeSeries(labels(stream.owner, key), points) for key, points in batch.send.items()],
        )
        with database.atomic("IMMEDIATE"):
            if _advance(stream, len(data), len(samples)):
                _store_series(stream.owner, batch.send)
                _keep(stream.owner, [*batch.keep, *_as_samples(refused)])
                _store_goal(stream.owner, [item for item in parsed if isinstance(item, Goal)])
        return True


def _next_batch(stream: Stream) -> bytes:
    end = stream.delivered + BATCH_BYTES
    lines = read_lines(stream, stream.delivered, end)
    # A line longer than a batch is cut.
    return lines or (read(stream, stream.delivered, end) if stream.size >= end else b"")


def _last_ms(owner: str) -> dict[SeriesKey, int]:
    rows = Series.select(Series.metric, Series.rank, Series.last_ms).where(Series.owner == owner)
    return {(row.metric, row.rank): row.last_ms for row in rows}


def _as_samples(refused: Iterable[TimeSeries]) -> list[Sample]:
    return [
        Sample(one.labels["metric"], one.labels.get("rank", ""), time_ms * 1000, value)
        for one in refused
        for time_ms, value in one.samples
    ]


def _advance(stream: Stream, length: int, recorded: int) -> bool:
    """Move the offset past a batch; return whether the stream is still there (runs get deleted)."""
    moved = (
        Stream.update(delivered=Stream.delivered + length, recorded=Stream.recorded + recorded)
        .where(Stream.id == stream.id, Stream.delivered == stream.delivered)
        .execute()
    )
    if moved:
        forget_delivered(Stream.get_by_id(stream.id))
    return bool(moved)


def _store_series(owner: str, sent: Mapping[SeriesKey, Sequence[tuple[int, float]]]) -> None:
    for (metric, rank), points in sent.items():
        Series.insert(
            owner=owner, metric=metric, rank=rank, first_ms=points[0][0], last_ms=points[-1][0]
        ).on_conflict(
            conflict_target=[Series.owner, Series.metric, Series.rank],
            update={Series.last_ms: points[-1][0]},
        ).execute()


def _keep(owner: str, samples: Iterable[Sample]) -> None:
    for sample in samples:
        KeptSample.create(
            owner=owner,
            metric=sample.metric,
            rank=sample.rank,
            time_us=sample.time_us,
            value=spell(sample.value),
        )


def _store_goal(owner: str, goals: Sequence[Goal]) -> None:
    if goals:
        run_id = int(owner.removeprefix("run/"))
        Run.update(goal=asdict(goals[-1])).where(Run.id == run_id).execute()
