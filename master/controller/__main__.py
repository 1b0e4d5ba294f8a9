"""The controller's process: looks, decides and acts, again and again; and delivers samples.

``python -m master.controller --port N`` runs until told to stop, and serves /metrics at that port.
"""

import argparse
import logging
import threading

from prometheus_client import (
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
)

from master import sweeping
from master.controller.decisions import decide
from master.controller.hands import Hands
from master.controller.lease import open_lease, wait_for
from master.controller.metering import LoopMetrics
from master.controller.settling import Settler
from master.controller.verification import Verifier
from master.controller.world import Attention, Habits, observe, store_pods
from master.grafana.follow import Follower, count_requests
from master.models import open_database
from master.pools.base import Pool
from master.pools.choose import open_pool
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter, WriterMetrics
from master.runs import find_active
from master.settings import SharedSettings
from mlbench.serving import serve_metrics
from mlbench.signals import on_termination

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
# While there is no run, so many ticks in a row only look whether there is one.
_IDLE_TICKS = 9


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="master.controller", description="Keeps runs going.")
    parser.add_argument("--port", type=int, required=True, help="port of /metrics")
    parser.add_argument("--host", default="127.0.0.1", help="address of /metrics")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = SharedSettings.from_environ()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    loop = LoopMetrics(registry)
    written = WriterMetrics(registry)
    serve_metrics(arguments.port, arguments.host, registry)
    stop = threading.Event()
    on_termination(stop.set)
    if not wait_for(open_lease(settings.database_url), stop.wait):
        return
    open_database(settings.database_url, settings.reserve_bytes)
    pool = open_pool(settings, registry, stop)
    habits = Habits(
        settings.workers, settings.start_seconds, settings.idle_seconds, settings.spool_bytes
    )
    writer = RemoteWriter(settings.prometheus_url, metrics=written)
    delivery = Delivery(writer, settings.limits.series)
    asked = PrometheusClient(settings.prometheus_url, timeout_seconds=10.0)
    settler = Settler(Verifier(asked, delivery))
    hands = Hands(pool, settler)
    attention = Attention()
    deliverer = threading.Thread(target=delivery.run, args=(stop, settler.recount), name="delivery")
    deliverer.start()
    # Nobody waits for it either: it may be waiting for Prometheus.
    threading.Thread(target=settler.run, args=(stop,), name="settling", daemon=True).start()
    # It is never waited for: what it has not swept yet, the next controller does.
    threading.Thread(target=sweeping.run, args=(stop,), name="sweeper", daemon=True).start()
    if settings.grafana:
        follower = Follower(settings.grafana, count_requests(registry))
        # Nobody waits for it: what it has not done yet, the next controller does.
        threading.Thread(target=follower.run, args=(stop,), name="grafana", daemon=True).start()
    patience, idle_ticks = _TICK_SECONDS, 0
    while not stop.wait(patience):
        try:
            if idle_ticks and find_active() is None:
                idle_ticks -= 1
                continue
            with loop.counted():
                _reconcile(pool, hands, habits, attention)
            patience, idle_ticks = _TICK_SECONDS, _IDLE_TICKS
        except Exception:
            # Nothing is lost by trying again: every tick begins from what is.
            log.exception("reconciling failed, trying again")
            patience = min(patience * 2, 5.0)
    deliverer.join()


def _reconcile(pool: Pool, hands: Hands, habits: Habits, attention: Attention) -> None:
    pods = pool.pods()
    if pods is not None:
        store_pods(pods)
    for action in decide(observe(pods or [], habits, attention, pool.explain())):
        hands.perform(action)


if __name__ == "__main__":
    main()
