"""Counting finds every sample, and every disagreement."""

import time

import pytest

from mlbench_master.models import KeptSample, Run, Stream, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient, PrometheusError
from mlbench_master.recording.delivery import Delivery
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import free_port
from tests.support.rows import line, make_run, record, time_series

HOUR = 3600.0


@pytest.fixture
def counted(run: Run, delivery: Delivery, prometheus: PrometheusClient) -> Run:
    """A run of hours, with series that begin and end at different times."""
    now = time.time()
    record(run, line(now - 22 * HOUR, first=1) + line(now - HOUR, middle=1, text="x"))
    record(run, line(now - 21 * HOUR, first=2, last=2) + line(now, last=3), rank=1)
    delivery.deliver_waiting()
    assert count(prometheus, run.id) == SampleCounts(6, 5, 1)
    return run


def test_samples_of_another_run_are_not_counted(
    counted: Run, delivery: Delivery, prometheus: PrometheusClient
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
    KeptSample.delete().where(KeptSample.owner == owner).execute()
    found = count(prometheus, counted.id)
    assert (found, found.lost) == (SampleCounts(7, 5, 0), 2)


def test_a_sample_that_nobody_recorded_is_found(
    counted: Run, writer: RemoteWriter, prometheus: PrometheusClient
) -> None:
    labels = {"__name__": "mlbench_run_metric", "run_id": str(counted.id), "metric": "extra"}
    writer.send([time_series(labels, [(time.time_ns() // 1_000_000 - 1_000, 1.0)])])
    found = count(prometheus, counted.id)
    assert found == SampleCounts(6, 6, 1)
    assert found.lost


def test_no_answer_is_no_count(counted: Run) -> None:
    absent = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(PrometheusError):
        count(absent, counted.id)
    absent.close()
