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
from collections import Counter
from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from mlbench.contract.limits import PAST_MS
from mlbench_master.database.connection import exclusive, run_sql
from mlbench_master.database.models import run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.recording.blocks import (
    JOINED_AT_ONCE,
    SMALL,
    Block,
    Samples,
    decode,
    join_small,
    store_exported,
    texts_among,
)
from mlbench_master.recording.remote_write import (
    FUTURE_MS,
    RemoteWriter,
    UnavailableError,
    WriteRequest,
    encode_labels,
)
from mlbench_master.recording.samples import prometheus_labels
from mlbench_master.runs.lifecycle import find_begun

log = logging.getLogger(__name__)

# Samples of a batch, about.
_BATCH_SAMPLES = 10_000
_BATCH_BLOCKS = 500
# Before every time that a sample can have.
_NEVER_MS = -(1 << 62)
_OWNERS = "SELECT DISTINCT owner FROM block WHERE exported IS NULL ORDER BY owner"
# Only the data of the batch are read, because the client of PostgreSQL receives all rows at once.
_NEXT = """
    SELECT id, metric, block.samples, data FROM block JOIN (
        SELECT id, SUM(samples) OVER (ORDER BY id) - samples AS samples_before FROM (
            SELECT id, samples FROM block
            WHERE exported IS NULL AND owner = ? ORDER BY id LIMIT ?
        ) AS waiting
    ) AS summed USING (id) WHERE samples_before < ? ORDER BY id
"""
_LAST_EXPORTED = """
    SELECT samples, only_here, data FROM block
    WHERE owner = ? AND metric = ? AND exported IS NOT NULL
    ORDER BY id DESC LIMIT 1
"""


class Exporter:
    """Exports the blocks that were not exported yet.

    Where Prometheus can take nothing now, methods raise UnavailableError.
    """

    def __init__(self, writer: RemoteWriter) -> None:
        self._writer = writer
        # Held while a batch may have been sent, but is not yet marked as exported.
        self._exporting = threading.Lock()
        # Of the owners that are being exported.
        self._sent: dict[str, _SentSeries] = {}
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
                wait_seconds = 0.005 if has_more else idle_seconds
            except UnavailableError as error:
                recovering = True
                wait = stop.wait  # whatever comes meanwhile
                wait_seconds = error.retry_after or min(max(wait_seconds, idle_seconds) * 2, 5.0)
                # A longer Retry-After of Prometheus is not waited for.
                wait_seconds = min(wait_seconds, 60.0)
                log.warning(
                    "Prometheus takes no samples, trying again in %.1f s: %s", wait_seconds, error
                )
            except Exception:
                wait_seconds = 1.0
                log.exception("the export failed, trying again")

    def export_waiting(self) -> bool:
        """Export a batch of each owner, those of active runs first.

        Returns:
            Whether a batch was full, so that more may wait.
        """
        active = {run_owner(run_id) for run_id in find_begun()}
        owners = [owner for (owner,) in run_sql(_OWNERS).fetchall()]
        self._sent = {o: sent for o, sent in self._sent.items() if o in active or o in owners}
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
                run_sql("UPDATE block SET exported = NULL, only_here = NULL WHERE owner = ?", owner)
            self._sent.pop(owner, None)

    def _export(self, owner: str) -> bool:
        rows = run_sql(_NEXT, owner, _BATCH_BLOCKS, _BATCH_SAMPLES).fetchall()
        batch = [Block(id_, metric, decode(bytes(data), n)) for id_, metric, n, data in rows]
        size = sum(len(block.samples) for block in batch)
        if not batch:  # the owner was deleted meanwhile
            return False
        # Forgotten if the export fails, because it may have sent a part of the batch.
        sent = self._sent.pop(owner, None) or _SentSeries(owner)
        series = np.concatenate([sent.positions(block.metric, block.samples) for block in batch])
        times_ms = np.concatenate([block.samples.times_us for block in batch]) // 1000
        values = np.concatenate([block.samples.values for block in batch])
        now_ms = time.time_ns() // 1_000_000
        fits = (now_ms - PAST_MS <= times_ms) & (times_ms <= now_ms + FUTURE_MS)
        fits &= times_ms > sent.last_ms[series]
        bounds = [*pairwise(accumulate((len(block.samples) for block in batch), initial=0))]
        for block, (start, _) in zip(batch, bounds, strict=True):
            fits[[start + i for i in texts_among(block.samples.notes)]] = False
        # Sorting is stable: of one millisecond, the first to arrive is sent, also the next time.
        order = np.lexsort((times_ms, series))
        order = order[fits[order]]
        is_other = np.diff(series[order], prepend=-1) != 0
        order = order[is_other | (np.diff(times_ms[order], prepend=-1) != 0)]
        starts = np.flatnonzero(np.diff(series[order], prepend=-1))
        labels = [sent.labels[position] for position in series[order[starts]].tolist()]
        request = WriteRequest(labels, starts.tolist(), times_ms[order], values[order])
        refused = self._writer.send_all(request)
        sent.last_ms[series[order]] = times_ms[order]
        is_sent = np.zeros(size, bool)
        is_sent[np.delete(order, refused)] = True
        here = [np.flatnonzero(~is_sent[start:end]).tolist() for start, end in bounds]
        sent.small_blocks.update(each.metric for each in batch if len(each.samples) < SMALL)
        with exclusive(owner):
            store_exported(zip(batch, here, strict=True))
            for metric, count in list(sent.small_blocks.items()):
                if count >= JOINED_AT_ONCE:
                    join_small(owner, metric)
                    del sent.small_blocks[metric]
        self._sent[owner] = sent
        accepted = int(is_sent.sum())
        self._writer.metrics.count_samples(
            accepted=accepted,
            record_only=size - accepted - len(refused),
            refused=len(refused),
        )
        return len(batch) == _BATCH_BLOCKS or size >= _BATCH_SAMPLES


class _SentSeries:
    """The series of an owner, with the newest millisecond of each that was sent."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._positions: dict[str, dict[str, int]] = {}
        """Position in the columns by metric and rank."""
        self.labels: list[bytes] = []
        self.last_ms = np.empty(0, np.int64)
        self.small_blocks = Counter[str]()
        """Number of small blocks of each metric since they were last joined."""

    def positions(self, metric: str, samples: Samples) -> NDArray[np.int64]:
        """Return the position of each sample's series in the columns."""
        if metric not in self._positions:
            self._positions[metric] = {}
            last = run_sql(_LAST_EXPORTED, self._owner, metric).fetchone()
            if last is not None:
                # An earlier controller has sent samples of the metric. A second sample of a
                # millisecond that has the same value would not be refused.
                count, only_here, data = last
                sent = np.delete(np.arange(count), json.loads(only_here) if only_here else [])
                earlier = decode(bytes(data), count).take(sent)
                positions = self.positions(metric, earlier)
                np.maximum.at(self.last_ms, positions, earlier.times_us // 1000)
        by_rank = self._positions[metric]
        for rank in samples.rank_names:
            if rank not in by_rank:
                by_rank[rank] = len(self.labels)
                self.labels.append(encode_labels(prometheus_labels(self._owner, (metric, rank))))
        if new := len(self.labels) - len(self.last_ms):
            self.last_ms = np.append(self.last_ms, np.full(new, _NEVER_MS))
        return np.array([by_rank[rank] for rank in samples.rank_names])[samples.ranks]
