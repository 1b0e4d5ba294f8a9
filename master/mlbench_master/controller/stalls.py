"""Asking runs why they do not go on: those that make no progress, or are long past their deadline.

It asks Prometheus, so it has a thread of its own. The rule of ``MLBenchRunStalled`` says what makes
no progress; an alert that is still pending is enough, as asking costs little.
"""

import logging
import time

from mlbench_master import times
from mlbench_master.controller.decisions import DEADLINE_GRACE, DEADLINE_GRACE_SECONDS
from mlbench_master.database.models import Autopsy, Rank, Run
from mlbench_master.errors import RefusedError
from mlbench_master.notify import Waiter
from mlbench_master.pools.base import Pool, wake
from mlbench_master.reading.promql import PrometheusClient, PrometheusError
from mlbench_master.runs import autopsies, life

log = logging.getLogger(__name__)

_ALERT = "MLBenchRunStalled"
_LOOK_SECONDS = 2.0


def run(prometheus: PrometheusClient, pool: Pool, waiter: Waiter) -> None:
    """Ask and wake until told to stop; try again while Prometheus is away."""
    woken, looked_at = time.time(), 0.0
    while not waiter.wait(_LOOK_SECONDS):
        try:
            woken = _wake_asked(pool, woken)
            if time.monotonic() - looked_at > _LOOK_SECONDS:
                looked_at = time.monotonic()
                ask_of_stalled(prometheus, time.time())
        except PrometheusError as error:
            log.debug("what stalls is not known: %s", error)
        except Exception:
            log.exception("asking of what stalls failed, trying again")


def ask_of_stalled(prometheus: PrometheusClient, now: float) -> None:
    """Ask the runs that stall or are overdue, each once.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    begun = Run.rows("state = ?", "STARTED")
    since: dict[str, float] = {}
    for alert in prometheus.alerts() if begun else ():
        labels, at = alert["labels"], times.parse(alert["activeAt"]) / 1e6
        if labels["alertname"] == _ALERT:
            since[labels["run_id"]] = min(at, since.get(labels["run_id"], at))
    for run in begun:
        asked = [old for old in autopsies.asked_of(run.id) if old.attempt == run.attempt]
        last = max((old.asked_at for old in asked if old.reason == "stalled"), default=0.0)
        try:
            if last < since.get(str(run.id), last):
                autopsies.ask(run.id, "stalled")
            elif _is_overdue(run, now) and not any(old.reason == "deadline" for old in asked):
                autopsies.ask(run.id, "deadline")
        except RefusedError:
            pass  # It has just ended.


def _is_overdue(run: Run, now: float) -> bool:
    """Tell whether half of the time is over after which a run is stopped for its deadline."""
    deadline = life.deadline_at(run)
    grace = max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * (run.deadline_seconds or 0.0))
    return deadline is not None and now > deadline + grace / 2


def _wake_asked(pool: Pool, since: float) -> float:
    """Have the agents of runs that were asked since then poll now; return when the last one was."""
    for asked in Autopsy.rows("asked_at > ? ORDER BY asked_at", since):
        ranks = Rank.select(Rank.worker).where(
            Rank.run == asked.run_id, Rank.attempt == asked.attempt
        )
        workers = {rank.worker for rank in ranks}
        wake(pod for pod in pool.pods() or [] if pod.name in workers)
        since = asked.asked_at
    return since
