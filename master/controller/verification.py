"""Never trust a 204: count what Prometheus has of a run, and deliver again what it lost."""

import logging
import time
from dataclasses import dataclass

from master.models import Run, run_owner
from master.reading.counting import Counted, count, span_of
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.plan import FUTURE_MS
from master.recording.streams import rewind, waits

log = logging.getLogger(__name__)

# Of what was lost again and again, the cause is no lost disk.
_MOST_REDELIVERIES = 3
# Older samples are kept instead of sent, so they would be kept beside what Prometheus has of them.
_YOUNG_MS = 22 * 3600 * 1000


@dataclass(frozen=True)
class Verifier:
    """Counts runs against Prometheus."""

    prometheus: PrometheusClient
    delivery: Delivery

    def count(self, run: Run) -> Counted | None:
        """Return where a run's samples are; nothing if some are on their way to Prometheus.

        They are also if Prometheus has lost some, which are then delivered again.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
        """
        owner = run_owner(run.id)
        # Or a sample posted meanwhile would be in Prometheus, but not yet in the ledger.
        with self.delivery.settled(owner):
            is_whole = not waits(owner)
            counted = count(self.prometheus, run.id)
            if not (counted.lost > 0 and _may_redeliver(run) and rewind(owner)):
                return counted if is_whole else None
        log.warning("run %d: Prometheus lost samples, delivering again: %s", run.id, counted)
        Run.update(redeliveries=Run.redeliveries + 1, delivery=None).where(
            Run.id == run.id
        ).execute()
        return None


def _may_redeliver(run: Run) -> bool:
    """Return whether what was sent to Prometheus would be sent again, rather than kept."""
    if run.redeliveries >= _MOST_REDELIVERIES:
        return False
    span, now_ms = span_of(run_owner(run.id)), time.time_ns() // 1_000_000
    return span is None or (
        now_ms - _YOUNG_MS < span.first_ms and span.last_ms <= now_ms + FUTURE_MS
    )
