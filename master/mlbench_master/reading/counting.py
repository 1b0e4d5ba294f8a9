"""Counting a run's samples: recorded, in Prometheus, in the record only."""

import time
from dataclasses import dataclass

from mlbench.contract import names
from mlbench.contract.limits import PAST_MS
from mlbench.contract.records import Delivery
from mlbench_master.database.connection import run_sql
from mlbench_master.database.models import Run, run_owner
from mlbench_master.reading.promql import PrometheusClient, quote
from mlbench_master.reading.windows import Span
from mlbench_master.recording.remote_write import FUTURE_MS

_RECORDED = "SELECT COALESCE(SUM(recorded), 0) FROM stream WHERE owner = ?"
_EXPORTED = """
    SELECT COALESCE(SUM(samples), 0), COALESCE(SUM(exported), 0), MAX(last_us)
    FROM block WHERE owner = ?
"""
_WAITS = "SELECT 1 FROM block WHERE owner = ? AND exported IS NULL LIMIT 1"


@dataclass(frozen=True)
class SampleCounts(Delivery):
    """Number of a run's samples in each place; those in Prometheus are counted by a query."""

    @property
    def lost(self) -> int:
        """Number of samples that Prometheus accepted and does not have."""
        return self.recorded - self.in_prometheus - self.record_only

    @property
    def disagreement(self) -> str:
        """A sentence on samples that Prometheus lacks; empty if it has all that it accepted."""
        if self.lost <= 0:
            return ""
        return (
            f"Prometheus lacks samples: {self.recorded} recorded, {self.in_prometheus} in "
            f"Prometheus, {self.record_only} in the record only"
        )


def recorded_so_far(run_id: int) -> int:
    """Return the number of a run's recorded samples."""
    [samples] = run_sql(_RECORDED, run_owner(run_id)).fetchone()
    return int(samples)


def waits_for_export(run_id: int) -> bool:
    """Return whether samples of a run still have to be sent to Prometheus."""
    return run_sql(_WAITS, run_owner(run_id)).fetchone() is not None


def count(prometheus: PrometheusClient, run: Run) -> SampleCounts:
    """Count the samples of a run; those that wait for export count as in the record only."""
    recorded, exported, last_us = run_sql(_EXPORTED, run_owner(run.id)).fetchone()
    if not exported:
        return SampleCounts(int(recorded), 0, int(recorded))
    # Dates of a wrong clock are not in Prometheus.
    latest_ms = time.time_ns() // 1_000_000 + FUTURE_MS
    span = Span(round(run.created_at * 1000) - PAST_MS, min(last_us // 1000, latest_ms))
    selector = f"{names.RUN_METRIC}{{run_id={quote(str(run.id))}}}"
    results = prometheus.query(
        f"sum(count_over_time({selector}[{span.length_ms}ms]))", span.last_ms / 1000
    )
    found = round(float(results[0].values[0])) if results else 0
    return SampleCounts(int(recorded), found, int(recorded) - int(exported))
