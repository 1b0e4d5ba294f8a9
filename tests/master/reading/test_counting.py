"""Counting finds every sample, and every disagreement."""

import time
from contextlib import closing

import pytest

from mlbench_master.database.models import Block, Run, run_owner
from mlbench_master.reading.counting import SampleCounts, count, recorded_so_far, waits_for_export
from mlbench_master.reading.promql import PrometheusClient
from tests.support.recording import Recording
from tests.support.rows import line, make_run, record

HOUR = 3600.0


@pytest.fixture
def counted(run: Run, recording: Recording, prometheus: PrometheusClient) -> Run:
    """A run of hours, with series that begin and end at different times."""
    now = time.time()
    record(run, line(now - 22 * HOUR, first=1) + line(now - HOUR, middle=1, text="x"))
    record(run, line(now - 21 * HOUR, first=2, last=2) + line(now, last=3), rank=1)
    recording.run_all()
    assert count(prometheus, run) == SampleCounts(6, 5, 1)
    return run


def test_samples_of_others(
    counted: Run, recording: Recording, prometheus: PrometheusClient
) -> None:
    other = make_run(id=int(f"{counted.id}0"))
    record(other, line(time.time(), a=1, b="text"))
    recording.run_all()
    assert count(prometheus, counted) == SampleCounts(6, 5, 1)
    assert count(prometheus, other) == SampleCounts(2, 1, 1)


def test_samples_that_prometheus_lacks_are_lost(counted: Run, prometheus: PrometheusClient) -> None:
    owner = run_owner(counted.id)
    assert count(prometheus, counted).disagreement == ""
    # As if one more had been accepted, and then lost.
    more = Block.samples + 1, Block.exported + 1
    first = Block.select().where(Block.owner == owner, Block.metric == "first").first()
    Block.update(samples=more[0], exported=more[1]).where(Block.id == first.id).execute()
    counts = count(prometheus, counted)
    assert (counts, counts.lost) == (SampleCounts(7, 5, 1), 1)
    assert counts.disagreement.startswith("Prometheus lacks samples: 7 recorded, 5 in Prometheus")


def test_unexportable_samples_need_no_prometheus(run: Run, recording: Recording) -> None:
    record(run, line(time.time() - 30 * HOUR, a=1) + line(time.time(), text="x"))
    assert not waits_for_export(run.id)
    recording.index_all()
    assert waits_for_export(run.id)
    recording.export_all()
    assert not waits_for_export(run.id)
    with closing(PrometheusClient("http://127.0.0.1:9")) as away:
        assert count(away, run) == SampleCounts(2, 0, 2)
    assert recorded_so_far(run.id) == 2
