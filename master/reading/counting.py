"""Counting a run's samples: recorded, in Prometheus, kept."""

from dataclasses import dataclass

from peewee import fn

from master.models import KeptSample, Series, Stream, run_owner
from master.reading.promql import PrometheusClient, quote
from master.reading.windows import Span
from mlbench import names


@dataclass(frozen=True)
class SampleCounts:
    """Where a run's samples are. None is lost where the three agree."""

    recorded: int
    """Samples in the run's streams."""
    in_prometheus: int
    """Samples that a query finds."""
    kept: int
    """Samples in the database, as Prometheus cannot hold them."""

    @property
    def agrees(self) -> bool:
        """Whether every recorded sample is in one place."""
        return self.lost == 0

    @property
    def lost(self) -> int:
        """How many samples are nowhere; negative if some are in two places."""
        return self.recorded - self.in_prometheus - self.kept

    @property
    def disagreement(self) -> str:
        """A sentence on what is missing; empty where the three agree."""
        if self.agrees:
            return ""
        return (
            f"samples are missing: {self.recorded} recorded, "
            f"{self.in_prometheus} in Prometheus, {self.kept} kept"
        )


def count(prometheus: PrometheusClient, run_id: int) -> SampleCounts:
    """Count the samples of a run whose streams have all been delivered.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    owner = run_owner(run_id)
    recorded, kept = _recorded(owner), _kept(owner)
    return SampleCounts(recorded, _count_in_prometheus(prometheus, run_id), kept)


def delivered_so_far(run_id: int) -> SampleCounts:
    """Return where a run's samples are by the database alone, without asking Prometheus."""
    owner = run_owner(run_id)
    sent = Series.select(fn.SUM(Series.samples)).where(Series.owner == owner).scalar()
    return SampleCounts(_recorded(owner), int(sent or 0), _kept(owner))


def _recorded(owner: str) -> int:
    recorded = Stream.select(fn.SUM(Stream.recorded)).where(Stream.owner == owner).scalar()
    return int(recorded or 0)


def _kept(owner: str) -> int:
    kept: int = KeptSample.select().where(KeptSample.owner == owner).count()
    return kept


def span_of(owner: str) -> Span | None:
    """Return the time of an owner's samples in Prometheus; None if it has none."""
    first_ms, last_ms = (
        Series.select(fn.MIN(Series.first_ms), fn.MAX(Series.last_ms))
        .where(Series.owner == owner)
        .scalar(as_tuple=True)
    )
    return None if first_ms is None else Span(first_ms, last_ms)


def _count_in_prometheus(prometheus: PrometheusClient, run_id: int) -> int:
    span = span_of(run_owner(run_id))
    if span is None:
        return 0
    selector = f"{names.RUN_METRIC}{{run_id={quote(str(run_id))}}}"
    # Newer versions of Prometheus leave out the first instant of a range.
    found = prometheus.query(
        f"sum(count_over_time({selector}[{span.length_ms}ms]))", span.last_ms / 1000
    )
    return round(float(found[0].values[0])) if found else 0
