"""Controller process: reconcile the actual with the desired state, index samples and export them.

``python -m mlbench_master.controller --port N`` runs until a signal ends it, and serves /metrics.
"""

import argparse
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, PlatformCollector, ProcessCollector

from mlbench.contract.errors import MLBenchError
from mlbench.local.backoff import Backoff
from mlbench.local.daemon import configure_logging, on_termination
from mlbench.local.pool import PoolFiles
from mlbench.local.serving import serve_metrics
from mlbench_master import grafana_push, interpreter
from mlbench_master.archives.sealing import Sealer
from mlbench_master.controller import stalls
from mlbench_master.controller.decisions import decide
from mlbench_master.controller.executor import Executor
from mlbench_master.controller.lease import open_lease, wait_for
from mlbench_master.controller.observed_state import PoolPolicy
from mlbench_master.controller.observer import Observer, store_pods
from mlbench_master.controller.registered_sets import SetRunner
from mlbench_master.controller.sample_verification import SampleVerifier
from mlbench_master.controller.webhook import Webhook
from mlbench_master.database.connection import UnreachableDatabaseError, check_integrity
from mlbench_master.database.models import open_database
from mlbench_master.notify import Waiter, Waker
from mlbench_master.pools.local_pool import LocalPool
from mlbench_master.pools.pool import PodStatus, Pool
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.export import Exporter
from mlbench_master.recording.indexing import Indexer
from mlbench_master.recording.remote_write import RemoteWriter, WriterMetrics
from mlbench_master.runs import deletion
from mlbench_master.runs.lifecycle import has_active
from mlbench_master.settings import SharedSettings

log = logging.getLogger(__name__)

# Pause between two looks while a run starts or ends.
_TICK_SECONDS = 0.1
# Pause while the state is steady: the waker then reports changes.
_LOOK_SECONDS = 1.0


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="mlbench_master.controller", description="Keeps runs going."
    )
    parser.add_argument("--port", type=int, required=True, help="port of /metrics")
    parser.add_argument("--host", default="127.0.0.1", help="address of /metrics")
    arguments = parser.parse_args()
    configure_logging()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    interpreter.tune()
    settings = SharedSettings.from_environ()
    # Checked before /metrics is served, so that the stack does not count as ready meanwhile.
    check_integrity(settings.database_url)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    loop = _Loop(registry)
    writer_metrics = WriterMetrics(registry)
    serve_metrics(arguments.port, arguments.host, registry)
    stop = threading.Event()
    on_termination(stop.set)
    if not wait_for(open_lease(settings.database_url), stop.wait):
        return
    open_database(settings.database_url, settings.reserve_bytes)
    waker = Waker(stop)
    on_termination(waker.stop)

    pool = _open_pool(settings, registry, stop)
    policy = PoolPolicy(
        *(settings.workers, settings.start_seconds, settings.idle_seconds),
        concurrent_runs=settings.limits.concurrent_runs,
    )
    observer = Observer(policy, settings.spool_bytes, pool.cores())
    exporter = Exporter(
        RemoteWriter(
            settings.prometheus_url,
            metrics=writer_metrics,
            write_url=settings.prometheus_write_url,
        )
    )
    prometheus = PrometheusClient(settings.prometheus_url, timeout_seconds=10.0)
    verifier = SampleVerifier(prometheus, exporter)
    reader = SeriesReader(prometheus, ArchiveStore(settings.archive))
    sealing = Sealer(reader, settings.archive_days, settings.archive_logs)
    executor = Executor(pool, announces=bool(settings.notify_url))

    index = partial(Indexer(settings.limits.series).run, waker.waiter("samples"))
    indexing = threading.Thread(target=index, name="indexing")
    indexing.start()
    # Nobody waits for the other threads: the next controller continues where they stopped.
    others: dict[str, Callable[[], None]] = {
        "export": partial(exporter.run, waker.waiter("blocks"), stop, verifier.recount),
        "verifying": partial(verifier.run, waker.waiter()),
        "sweeper": partial(deletion.run, waker.waiter()),
        "sealing": partial(sealing.run, waker.waiter(), stop),
        "stalls": partial(
            stalls.run, prometheus, pool, waker.waiter(), announces=bool(settings.notify_url)
        ),
        "sets": partial(SetRunner(reader, settings.limits).run, waker.waiter()),
        "webhook": partial(Webhook(settings.notify_url, settings.url).run, waker.waiter(), stop),
    }
    if settings.grafana:
        others["grafana"] = partial(grafana_push.push, settings.grafana, registry, stop)
    for name, run in others.items():
        threading.Thread(target=run, name=name, daemon=True).start()

    stored_pods: list[PodStatus] | None = None

    def is_idle() -> bool:
        return pool.pods() == stored_pods and not has_active()

    def reconcile() -> bool:
        nonlocal stored_pods
        pods = pool.pods()
        if pods is not None and pods != stored_pods:
            store_pods(pods)
        stored_pods = pods
        observed = observer.observe(pods or [], pool.explain())
        for action in decide(observed):
            executor.perform(action)
        return observed.is_steady

    loop.run(reconcile, is_idle, waker.waiter())
    indexing.join()


def _open_pool(
    settings: SharedSettings, registry: CollectorRegistry, stop: threading.Event
) -> Pool:
    if settings.limits.pool == "local":
        return LocalPool(PoolFiles(settings.home))
    # The package kubernetes is installed only for a controller in a cluster.
    from mlbench_master.pools import kubernetes  # noqa: PLC0415

    return kubernetes.open_pool(settings.limits, registry, stop)


class _Loop:
    """Loop of the controller, with its metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reconciles = Counter(
            "mlbench_controller_reconciles_total",
            "Times that the controller looked and acted, by how that went.",
            ("outcome",),
            registry=registry,
        )
        self._done_at = Gauge(
            "mlbench_controller_reconcile_timestamp_seconds",
            "When the controller last looked and acted to the end.",
            registry=registry,
        )
        for outcome in ("done", "failed"):
            self._reconciles.labels(outcome)

    def run(
        self, reconcile: Callable[[], bool], is_idle: Callable[[], bool], waiter: Waiter
    ) -> None:
        """Reconcile until the process stops; less often if that fails, or nothing changes."""
        pause, backoff = _TICK_SECONDS, Backoff(2 * _TICK_SECONDS, 5.0)
        idle_looks = 0
        while not waiter.wait(pause):
            began = time.monotonic()
            try:
                if idle_looks and is_idle():
                    idle_looks -= 1
                    continue
                is_steady = reconcile()
            except Exception:
                # A retry is safe, because every turn starts from the observed state.
                log.exception("reconciling failed, trying again")
                self._reconciles.labels("failed").inc()
                pause = backoff.seconds()
            else:
                self._reconciles.labels("done").inc()
                self._done_at.set_to_current_time()
                pause = _LOOK_SECONDS if is_steady else _TICK_SECONDS
                # With a thousand workers a turn takes long, so turns take at most a ninth of the
                # time, unless that makes the pause longer than in a steady state.
                rest = 8.0 * (time.monotonic() - began)
                pause = max(pause, min(rest, _LOOK_SECONDS))
                backoff.reset()
                # Without a run, the next looks only check for runs and changed pods.
                idle_looks = 4


if __name__ == "__main__":
    try:
        main()
    except UnreachableDatabaseError as error:
        sys.exit(str(error))
    except MLBenchError as error:
        # A retry cannot help, because the configuration is wrong.
        print(error, file=sys.stderr)
        sys.exit(os.EX_CONFIG)
