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
from mlbench_master.reading.counting import SampleCounts
from mlbench_master.reading.promql import PrometheusClient, answer_or_none
from mlbench_master.reading.store import ArchiveStore


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
            # Reused for 30 s, because listing thousands of archives in S3 takes seconds.
            if self._storage is None or self.clock() - self._measured_at > 30.0:
                own = Run.delivery.is_null(False), Run.origin.is_null()
                runs = Run.select(Run.delivery).where(*own)
                counts = [SampleCounts(**run.delivery) for run in runs]
                archives = None
                with suppress(ArchiveError):
                    archives = ArchiveStorage(*self.archives.measure())
                self._storage = Storage(
                    prometheus=answer_or_none(self.prometheus.storage),
                    database=DatabaseStorage(database_kind(), database_size()),
                    archives=archives,
                    recorded_samples=sum(count.recorded for count in counts),
                    missing_samples=sum(max(0, count.lost) for count in counts),
                )
                self._measured_at = self.clock()
            resp.media = self._storage
