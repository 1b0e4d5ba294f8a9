"""Export: sends the samples of blocks to Prometheus, as far as it can hold them.

``exported`` of a block is the number of its samples that Prometheus has accepted. Its others are in
the record only, at the positions in ``only_here``: texts, dates outside of Prometheus's window, and
all but the first sample of a series in a millisecond.
Sending a block again changes nothing in Prometheus.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mlbench.contract.series import SeriesKey
from mlbench_master.database.connection import exclusive, run_sql
from mlbench_master.database.models import run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.recording.blocks import Block, decode, store_exported
from mlbench_master.recording.remote_write import (
    FUTURE_MS,
    PAST_MS,
    RemoteWriter,
    TimeSeries,
    UnavailableError,
)
from mlbench_master.recording.samples import encoded_labels
from mlbench_master.runs.lifecycle import find_begun

log = logging.getLogger(__name__)

# Samples of a batch, about.
_BATCH_SAMPLES = 10_000
_BATCH_BLOCKS = 500
_PAUSE_SECONDS = 0.005
_RETRY_SECONDS = 1.0
# A longer Retry-After of Prometheus is not waited for.
_MAX_WAIT_SECONDS = 60.0
_OWNERS = "SELECT DISTINCT owner FROM block WHERE exported IS NULL ORDER BY owner"
_NEXT = """
    SELECT id, metric, is_posted, samples, data FROM block
    WHERE exported IS NULL AND owner = ? ORDER BY id LIMIT ?
"""
_LAST_EXPORTED = """
    SELECT samples, only_here, data FROM block
    WHERE owner = ? AND metric = ? AND exported IS NOT NULL
    ORDER BY id DESC LIMIT 1
"""
_SEND_AGAIN = "UPDATE block SET exported = NULL, only_here = NULL WHERE owner = ?"


class Exporter:
    """Exports the blocks that were not exported yet.

    Where Prometheus can take nothing now, methods raise UnavailableError.
    """

    def __init__(self, writer: RemoteWriter) -> None:
        self._writer = writer
        # Held while a batch may have been sent, but is not yet marked as exported.
        self._exporting = threading.Lock()
        # The newest millisecond of each series that was sent, of the owners that are exported.
        self._last_ms: dict[str, dict[SeriesKey, int]] = {}
        # Its content may be why Prometheus gave no answer, so it is the last to be tried again.
        self._failed = ""

    def run(
        self,
        waiter: Waiter,
        stop: Waiter,
        on_recovery: Callable[[], None],
        idle_seconds: float = 2.0,
    ) -> None:
        """Export until stopped: by ``waiter``, and while Prometheus is unavailable by ``stop``.

        ``on_recovery`` is called after the first export, and the first after each such time.
        """
        wait, wait_seconds, recovering = waiter.wait, idle_seconds, True
        while not wait(wait_seconds):
            try:
                wait = waiter.wait
                has_more = self.export_waiting()
                if recovering:
                    on_recovery()
                    recovering = False
                wait_seconds = _PAUSE_SECONDS if has_more else idle_seconds
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
                log.exception("the export failed, trying again")

    def export_waiting(self) -> bool:
        """Export a batch of each owner, those of active runs first.

        Returns:
            Whether a batch was full, so that more may wait.
        """
        active = {run_owner(run_id) for run_id in find_begun()}
        owners = [owner for (owner,) in run_sql(_OWNERS).fetchall()]
        self._last_ms = {o: last for o, last in self._last_ms.items() if o in active or o in owners}
        owners.sort(key=lambda owner: (owner == self._failed, owner not in active))
        has_more = False
        for owner in owners:
            self._failed = owner
            with self._exporting:
                has_more |= self._export(owner)
        self._failed = ""
        if not (has_more or active.issuperset(owners)):
            notify()  # runs that have ended can be counted
        return has_more

    def send_again(self, owner: str) -> None:
        """Have all blocks of an owner sent again."""
        with self._exporting:
            with exclusive(owner):
                run_sql(_SEND_AGAIN, owner)
            self._last_ms.pop(owner, None)

    def _export(self, owner: str) -> bool:
        batch, size = _next_batch(owner)
        if not batch:  # the owner was deleted meanwhile
            return False
        last_ms = self._last_ms.pop(owner, {})
        _load_last(owner, batch, last_ms)
        columns = _Columns.of(batch)
        order = columns.exportable(last_ms, time.time_ns() // 1_000_000)
        ends = np.flatnonzero(np.diff(columns.series[order], append=-1)) + 1
        milliseconds, values = columns.ms[order].tolist(), columns.values[order].tolist()
        request: list[TimeSeries] = []
        first_of: dict[bytes, int] = {}
        for start, end in pairwise([0, *ends.tolist()]):
            key = columns.keys[columns.series[order[start]]]
            labels = encoded_labels(owner, key)
            points = list(zip(milliseconds[start:end], values[start:end], strict=True))
            request.append(TimeSeries(labels, points))
            first_of[labels] = start
            last_ms[key] = milliseconds[end - 1]
        refused = self._writer.send_all(request)
        is_sent = np.zeros(size, bool)
        is_sent[order] = True
        for one in refused:
            start = first_of[one.labels]
            is_sent[order[milliseconds.index(one.samples[0][0], start)]] = False
        with exclusive(owner):
            at = 0
            for block in batch:
                end = at + len(block.samples)
                store_exported(owner, block, np.flatnonzero(~is_sent[at:end]).tolist())
                at = end
        self._last_ms[owner] = last_ms
        accepted = int(is_sent.sum())
        self._writer.metrics.count_samples(
            accepted=accepted,
            record_only=size - accepted - len(refused),
            refused=len(refused),
        )
        return len(batch) == _BATCH_BLOCKS or size >= _BATCH_SAMPLES


def _next_batch(owner: str) -> tuple[list[Block], int]:
    """Return blocks of an owner to export, and the number of their samples."""
    batch: list[Block] = []
    size = 0
    for id_, metric, is_posted, count, data in run_sql(_NEXT, owner, _BATCH_BLOCKS):
        batch.append(Block(id_, metric, bool(is_posted), decode(bytes(data), count)))
        size += count
        if size >= _BATCH_SAMPLES:
            break
    return batch, size


def _load_last(owner: str, batch: Sequence[Block], last_ms: dict[SeriesKey, int]) -> None:
    """Add the times of the samples that an earlier controller has sent, of metrics new here.

    A second sample of a millisecond that has the same value would not be refused.
    """
    known = {metric for metric, _ in last_ms}
    for metric in {block.metric for block in batch} - known:
        before = run_sql(_LAST_EXPORTED, owner, metric).fetchone()
        if before is not None:
            count, only_here, data = before
            sent = np.delete(np.arange(count), json.loads(only_here) if only_here else [])
            samples = decode(bytes(data), count).take(sent)
            for rank, time_us in zip(
                samples.ranks.tolist(), samples.times_us.tolist(), strict=True
            ):
                key = metric, samples.rank_names[rank]
                last_ms[key] = max(last_ms.get(key, 0), time_us // 1000)


@dataclass(frozen=True)
class _Columns:
    """The samples of several blocks as columns of the same length."""

    keys: Sequence[SeriesKey]
    series: NDArray[np.int64]
    """Position in ``keys`` of each sample's series."""
    ms: NDArray[np.int64]
    values: NDArray[np.float64]
    is_text: NDArray[np.bool_]

    @classmethod
    def of(cls, batch: Sequence[Block]) -> "_Columns":
        codes: dict[SeriesKey, int] = {}
        series, texts, at = [], [], 0
        for block in batch:
            samples = block.samples
            names = ((block.metric, name) for name in samples.rank_names)
            of_ranks = np.array([codes.setdefault(key, len(codes)) for key in names], np.int64)
            series.append(of_ranks[samples.ranks])
            texts += [at + i for i, more in samples.more.items() if more.text is not None]
            at += len(samples)
        is_text = np.zeros(at, bool)
        is_text[texts] = True
        return cls(
            list(codes),
            np.concatenate(series),
            np.concatenate([block.samples.times_us for block in batch]) // 1000,
            np.concatenate([block.samples.values for block in batch]),
            is_text,
        )

    def exportable(self, last_ms: Mapping[SeriesKey, int], now_ms: int) -> NDArray[np.int64]:
        """Return the positions of samples that Prometheus can hold, by series and time.

        ``last_ms`` has the newest millisecond of each series that was sent.
        """
        latest = np.array([last_ms.get(key, -(1 << 62)) for key in self.keys], np.int64)
        fits = (now_ms - PAST_MS <= self.ms) & (self.ms <= now_ms + FUTURE_MS)
        fits &= ~self.is_text & (self.ms > latest[self.series])
        # Sorting is stable: of one millisecond, the first to arrive is sent, also the next time.
        order = np.lexsort((self.ms, self.series))
        order = order[fits[order]]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(self.series[order]) != 0) | (np.diff(self.ms[order]) != 0)
        found: NDArray[np.int64] = order[is_first]
        return found
