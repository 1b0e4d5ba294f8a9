"""Never trust a 204: count what Prometheus has of a run, and deliver again what it lost."""

import logging
import time
from dataclasses import dataclass

from master.models import Run, run_owner
from master.reading.counting import Counted, count
from master.reading.promql import PrometheusClient
from master.recording.delivery import Delivery
from master.recording.streams import rewind
from mlbench.names import ACTIVE_STATES

log = logging.getLogger(__name__)

# Of what was lost again and again, the cause is no lost disk.
_MOST_REDELIVERIES = 3
# Prometheus refuses older samples, so those of an older run would be kept beside what it has.
_YOUNG_SECONDS = 22 * 3600.0


@dataclass(frozen=True)
class Verifier:
    """Counts runs against Prometheus."""

    prometheus: PrometheusClient
    delivery: Delivery

    def count(self, run_id: int) -> Counted | None:
        """Return where a run's samples are; nothing if some were lost and are on their way again.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
        """
        owner = run_owner(run_id)
        # Or a sample posted meanwhile would be in Prometheus, but not yet in the ledger.
        with self.delivery.settled(owner):
            counted = count(self.prometheus, run_id)
            run = Run.get_by_id(run_id)
            if not (counted.lost > 0 and _may_redeliver(run) and rewind(owner)):
                return counted
        log.warning("run %d: Prometheus lost samples, delivering again: %s", run_id, counted)
        Run.update(redeliveries=run.redeliveries + 1).where(Run.id == run_id).execute()
        return None

    def count_active(self) -> None:
        """Count the runs that go on, after a time in which Prometheus was away.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
        """
        for run in list(Run.select(Run.id).where(Run.state.in_(ACTIVE_STATES))):
            self.count(run.id)


def _may_redeliver(run: Run) -> bool:
    return run.redeliveries < _MOST_REDELIVERIES and time.time() - run.created_at < _YOUNG_SECONDS
