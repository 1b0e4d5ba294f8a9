"""The controller's process: looks, decides and acts, again and again; and delivers samples."""

import logging
import threading

from master.controller.decisions import decide
from master.controller.hands import Hands
from master.controller.verification import Verifier
from master.controller.world import Attention, observe, store_pods
from master.models import open_database
from master.pools.base import Pool
from master.pools.local import LocalPool
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter
from master.settings import Settings
from mlbench.pool import PoolFiles
from mlbench.signals import on_termination

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.1


def main() -> None:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = Settings.from_environ()
    open_database(settings.database_url)
    pool = LocalPool(PoolFiles(settings.home))
    delivery = Delivery(RemoteWriter(settings.prometheus_url))
    verifier = Verifier(PrometheusClient(settings.prometheus_url), delivery)
    hands = Hands(pool, verifier)
    attention = Attention()
    stop = threading.Event()
    on_termination(stop.set)

    deliverer = threading.Thread(
        target=delivery.run, args=(stop, verifier.count_active), name="delivery"
    )
    deliverer.start()
    patience = _TICK_SECONDS
    while not stop.wait(patience):
        try:
            _reconcile(pool, hands, settings.workers, attention)
            patience = _TICK_SECONDS
        except Exception:
            # Nothing is lost by trying again: every tick begins from what is.
            log.exception("reconciling failed, trying again")
            patience = min(patience * 2, 5.0)
    deliverer.join()


def _reconcile(pool: Pool, hands: Hands, usual_workers: int, attention: Attention) -> None:
    pods = pool.pods()
    store_pods(pods)
    for action in decide(observe(pods, usual_workers, attention)):
        hands.perform(action)


if __name__ == "__main__":
    main()
