"""Counting finds every sample, and every disagreement."""

import time

import pytest

from mlbench_master.database.models import Run, Stream, UnstorableSample, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.delivery import SampleDelivery
from tests.support.rows import line, make_run, record

HOUR = 3600.0


@pytest.fixture
def counted(run: Run, delivery: SampleDelivery, prometheus: PrometheusClient) -> Run:
    """A run of hours, with series that begin and end at different times."""
    now = time.time()
    record(run, line(now - 22 * HOUR, first=1) + line(now - HOUR, middle=1, text="x"))
    record(run, line(now - 21 * HOUR, first=2, last=2) + line(now, last=3), rank=1)
    delivery.deliver_waiting()
    assert count(prometheus, run.id) == SampleCounts(6, 5, 1)
    return run


def test_samples_of_another_run_are_not_counted(
    counted: Run, delivery: SampleDelivery, prometheus: PrometheusClient
) -> None:
    other = make_run(id=int(f"{counted.id}0"))
    record(other, line(time.time(), a=1, b="text"))
    delivery.deliver_waiting()
    assert count(prometheus, counted.id) == SampleCounts(6, 5, 1)
    assert count(prometheus, other.id) == SampleCounts(2, 1, 1)


def test_a_sample_that_is_missing_anywhere_is_missed(
    counted: Run, prometheus: PrometheusClient
) -> None:
    owner = run_owner(counted.id)
    stream = Stream.select().where(Stream.owner == owner).first()
    # As if it had been in the ledger, but not in Prometheus.
    Stream.update(recorded=Stream.recorded + 1).where(Stream.id == stream.id).execute()
    assert count(prometheus, counted.id) == SampleCounts(7, 5, 1)
    UnstorableSample.delete().where(UnstorableSample.owner == owner).execute()
    counts = count(prometheus, counted.id)
    assert (counts, counts.lost) == (SampleCounts(7, 5, 0), 2)
