"""``/api/info/storage/``: where the installation stores runs, and how much."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from falcon import Request, Response

from mlbench.archive import ArchiveError
from mlbench.contract.records import ArchiveStorage, DatabaseStorage, Storage
from mlbench_master.database.connection import database_kind, database_size
from mlbench_master.database.models import Run
from mlbench_master.openapi.operation import operation
from mlbench_master.reading.promql import PrometheusClient, answer_or_none
from mlbench_master.reading.store import ArchiveStore

# Listing thousands of archives in S3 takes seconds.
_REUSE_SECONDS = 30.0


@dataclass
class StorageResource:
    """Sizes of Prometheus, the database and the archives, and the number of missing samples."""

    prometheus: PrometheusClient
    archives: ArchiveStore
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _storage: Storage | None = None
    _measured_at: float = 0.0

    @operation("get_storage", "The storage.", Storage)
    def on_get(self, req: Request, resp: Response) -> None:
        """Return what Prometheus, the database and the archives store, at most 30 s old."""
        with self._lock:
            if self._storage is None or self.clock() - self._measured_at > _REUSE_SECONDS:
                self._storage = self._measure()
                self._measured_at = self.clock()
            resp.media = self._storage

    def _measure(self) -> Storage:
        deliveries = Run.select(Run.delivery).where(
            Run.delivery.is_null(False), Run.origin.is_null()
        )
        counts = [row.delivery for row in deliveries]
        stored = [count["in_prometheus"] + count["record_only"] for count in counts]
        recorded = [count["recorded"] for count in counts]
        lost = (max(0, r - s) for r, s in zip(recorded, stored, strict=True))
        archives = None
        with suppress(ArchiveError):
            archives = ArchiveStorage(*self.archives.measure())
        return Storage(
            prometheus=answer_or_none(self.prometheus.storage),
            database=DatabaseStorage(database_kind(), database_size()),
            archives=archives,
            recorded_samples=sum(recorded),
            missing_samples=sum(lost),
        )
