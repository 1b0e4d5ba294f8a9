"""Counting a run's samples: recorded, in Prometheus, kept."""

from dataclasses import dataclass, replace
from typing import Any

from peewee import fn

from mlbench.contract import names
from mlbench.contract.records import Delivery
from mlbench_master.database.models import Series, Stream, UnstorableSample, run_owner
from mlbench_master.reading.promql import PrometheusClient, quote
from mlbench_master.reading.windows import Span


@dataclass(frozen=True)
class SampleCounts(Delivery):
    """Number of a run's samples in each place; those in Prometheus are counted by a query."""

    @property
    def lost(self) -> int:
        """How many samples are nowhere; negative if some are in two places."""
        return self.recorded - self.in_prometheus - self.in_database

    @property
    def disagreement(self) -> str:
        """A sentence on what is missing; empty where every sample is in one place."""
        if not self.lost:
            return ""
        return (
            f"samples are missing: {self.recorded} recorded, "
            f"{self.in_prometheus} in Prometheus, {self.in_database} in the database only"
        )


def count(prometheus: PrometheusClient, run_id: int) -> SampleCounts:
    """Count the samples of a run whose streams have all been delivered.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    counts = delivered_so_far(run_id)
    span = span_of(run_owner(run_id))
    if span is None:
        return replace(counts, in_prometheus=0)
    selector = f"{names.RUN_METRIC}{{run_id={quote(str(run_id))}}}"
    # Newer versions of Prometheus leave out the first instant of a range.
    results = prometheus.query(
        f"sum(count_over_time({selector}[{span.length_ms}ms]))", span.last_ms / 1000
    )
    return replace(counts, in_prometheus=round(float(results[0].values[0])) if results else 0)


def delivered_so_far(run_id: int) -> SampleCounts:
    """Count the samples of a run by the database alone, without asking Prometheus."""
    owner = run_owner(run_id)

    def total(table: type[Stream | Series], column: Any) -> int:
        return int(table.select(fn.SUM(column)).where(table.owner == owner).scalar() or 0)

    kept = UnstorableSample.select().where(UnstorableSample.owner == owner).count()
    return SampleCounts(total(Stream, Stream.recorded), total(Series, Series.samples), kept)


def span_of(owner: str) -> Span | None:
    """Return the time range of an owner's samples in Prometheus; None without samples."""
    first_ms, last_ms = (
        Series.select(fn.MIN(Series.first_ms), fn.MAX(Series.last_ms))
        .where(Series.owner == owner)
        .scalar(as_tuple=True)
    )
    return None if first_ms is None else Span(first_ms, last_ms)
