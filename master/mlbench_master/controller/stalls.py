"""Ask runs for a hang diagnosis if they make no progress, or are long past their deadline.

The queries to Prometheus have a thread of their own. The rule of ``MLBenchRunStalled`` decides
whether a run makes progress. A pending alert is enough, because a diagnosis costs little.
"""

import logging
import time

from mlbench_master import timestamps
from mlbench_master.controller.decisions import DEADLINE_GRACE, DEADLINE_GRACE_SECONDS
from mlbench_master.database.models import Diagnosis, Notification, Rank, Run
from mlbench_master.errors import RefusedError
from mlbench_master.notify import Waiter
from mlbench_master.pools.pool import Pool, wake
from mlbench_master.reading.promql import PrometheusClient, answer_or_none
from mlbench_master.runs import diagnoses, lifecycle

log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0


def run(
    prometheus: PrometheusClient, pool: Pool, waiter: Waiter, *, announces: bool = False
) -> None:
    """Ask runs and wake their agents until the controller stops; retry while Prometheus is away."""
    woken, looked_at = time.time(), 0.0
    while not waiter.wait(_LOOK_SECONDS):
        try:
            # Users ask through the API, so the database tells which agents to wake.
            for diagnosis in Diagnosis.rows("asked_at > ? ORDER BY asked_at", woken):
                ranks = Rank.select(Rank.worker).where(
                    Rank.run == diagnosis.run_id, Rank.attempt == diagnosis.attempt
                )
                workers = {rank.worker for rank in ranks}
                wake(pod for pod in pool.pods() or [] if pod.name in workers)
                woken = diagnosis.asked_at
            if time.monotonic() - looked_at > _LOOK_SECONDS:
                looked_at = time.monotonic()
                ask_of_stalled(prometheus, time.time(), announces=announces)
        except Exception:
            log.exception("asking stalled runs for a diagnosis failed, trying again")


def ask_of_stalled(prometheus: PrometheusClient, now: float, *, announces: bool = False) -> None:
    """Ask each run that stalls or is overdue, once; only Prometheus knows which ones stall.

    ``announces``: whether runs for which the alert fires are announced to the webhook.
    """
    active = Run.rows("state = ?", "STARTED")
    since: dict[str, float] = {}
    firing = set()
    for alert in answer_or_none(prometheus.alerts) or () if active else ():
        labels, at = alert["labels"], timestamps.parse(alert["activeAt"]) / 1e6
        if labels["alertname"] == "MLBenchRunStalled":
            since[labels["run_id"]] = min(at, since.get(labels["run_id"], at))
            if alert["state"] == "firing":
                firing.add(labels["run_id"])
    for run in active:
        if announces and str(run.id) in firing:
            Notification.insert(
                run=run.id, attempt=run.attempt, event="hung", at=now
            ).on_conflict_ignore().execute()
        earlier = [old for old in diagnoses.asked_of(run.id) if old.attempt == run.attempt]
        last = max((old.asked_at for old in earlier if old.reason == "stalled"), default=0.0)
        try:
            if last < since.get(str(run.id), last):
                diagnoses.ask(run.id, "stalled")
            elif not any(old.reason == "deadline" for old in earlier):
                deadline = lifecycle.deadline_at(run)
                grace = max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * (run.deadline_seconds or 0.0))
                # A run is stopped after the whole grace period.
                if deadline is not None and now > deadline + grace / 2:
                    diagnoses.ask(run.id, "deadline")
        except RefusedError:
            pass  # The run has just ended.
