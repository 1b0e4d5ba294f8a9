"""Delivery to the real Prometheus: every sample is there or kept, exactly once."""

import time

import pytest
from peewee import Database

from mlbench_master.database.models import Chunk, Run, Series, Stream, UnstorableSample, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import delivery as module
from mlbench_master.recording import streams
from mlbench_master.recording.delivery import BATCH_BYTES, SampleDelivery
from mlbench_master.recording.samples import Sample
from tests.support.killing import killed_at
from tests.support.rows import deliver_all, line, make_run, post, record

pytestmark = pytest.mark.both_databases


def kept(run: Run) -> list[tuple[str, str]]:
    rows = UnstorableSample.select().where(UnstorableSample.owner == run_owner(run.id))
    return [(row.metric, row.value) for row in rows.order_by(UnstorableSample.id)]


def assert_counts(prometheus: PrometheusClient, run: Run, sent: int, kept: int) -> None:
    assert count(prometheus, run.id) == SampleCounts(sent + kept, sent, kept)


def test_killed_between_sending_and_committing(
    run: Run, delivery: SampleDelivery, prometheus: PrometheusClient
) -> None:
    start = time.time() - 5
    record(run, b"".join(line(start + i / 2000, a=i, text="x") for i in range(50)))
    of_delivery = [f"delivery.{step}" for step in ("advance", "store_facts", "store_refused")]
    for step in (*of_delivery, "storing._store_series", "storing.keep"):
        with killed_at(f"mlbench_master.recording.{step}"):
            delivery.deliver_waiting()
        stream = Stream.get(owner=run_owner(run.id))
        assert (stream.delivered, stream.recorded) == (0, 0)
        assert kept(run) == []
        # More arrives, so the batch that is sent again is a larger one.
        record(run, line(time.time(), a=1))
    deliver_all(delivery)
    counted = count(prometheus, run.id)
    assert (counted.lost, counted.recorded) == (0, 105)


def test_many_batches_and_cuts_within_lines(
    run: Run,
    delivery: SampleDelivery,
    prometheus: PrometheusClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    start = time.time() - 5
    data = b"".join(line(start + i / 1000, a=i) for i in range(60))
    for offset in range(0, len(data), 61):
        record(run, data[offset : offset + 61])
        delivery.deliver_waiting()
    deliver_all(delivery)
    assert_counts(prometheus, run, sent=60, kept=0)
    series = Series.get(owner=run_owner(run.id))
    assert series.samples == 60
    assert 58 <= series.last_ms - series.first_ms <= 60
    # What an active run recorded stays, as Prometheus may lose its disk.
    assert sum(len(chunk.data) for chunk in Chunk.select()) == len(data)


def test_delivered_chunks_go_unless_their_run_may_be_counted_again(
    run: Run, delivery: SampleDelivery
) -> None:
    """Samples of pods and of runs that are settled; those of a run that may be counted stay."""
    settled = make_run(state="FAILED", settled_at=time.time())
    others = (run, make_run(state="INITIALIZED"), make_run(state="FAILED"))
    owners = [run_owner(other.id) for other in (*others, settled)] + [f"pod/w-{run.id}"]
    for owner in owners:
        post(owner, [Sample("a", "", time.time_ns() // 1000, 1.0)])
    deliver_all(delivery)
    assert {chunk.stream.owner for chunk in Chunk.select()} == set(owners[:3])


def test_a_torn_last_line_waits_until_the_stream_is_closed(
    run: Run, delivery: SampleDelivery, prometheus: PrometheusClient
) -> None:
    now = time.time()
    torn = line(now, a=2)[:-9]
    record(run, line(now, a=1) + torn)
    assert delivery.deliver_waiting()
    assert not delivery.deliver_waiting()
    assert kept(run) == []
    streams.close(run.id, 1, 0, {})
    deliver_all(delivery)
    assert kept(run) == [("malformed", torn.decode())]
    assert_counts(prometheus, run, sent=1, kept=1)
    whole = record(run, line(now, a=1)[:-1], rank=1)
    streams.close(run.id, 1, 1, {"metrics": whole.size})
    deliver_all(delivery)
    assert_counts(prometheus, run, sent=2, kept=1)


def test_a_line_longer_than_a_batch_does_not_stop_the_stream(
    run: Run, delivery: SampleDelivery, prometheus: PrometheusClient
) -> None:
    now = time.time()
    long = line(now, text="x" * (2 * BATCH_BYTES))
    half = len(long) // 3
    record(run, line(now, a=1) + long[:half])
    assert delivery.deliver_waiting()
    assert not delivery.deliver_waiting(), "half a line was delivered"
    record(run, long[half:] + line(now + 1, a=2))
    deliver_all(delivery)
    # It is cut in three, and the beginning of each piece is shown.
    assert [metric for metric, _ in kept(run)] == ["malformed"] * 3
    assert kept(run)[0][1] == f"{long[:4096].decode()}… ({BATCH_BYTES:,} bytes)"
    assert all(len(text) < 5_000 for _, text in kept(run))
    assert_counts(prometheus, run, sent=2, kept=3)


def test_a_deleted_run_is_skipped(run: Run, delivery: SampleDelivery, database: Database) -> None:
    stream = record(run, line(time.time(), a=1, b="text"))
    other = Stream.create(owner=run_owner(run.id), attempt=1, rank=1, name="metrics")
    stream.delete_instance()
    assert delivery._deliver([stream]) == 0
    assert other.id is not None
    assert not Series.select().exists()
    assert not UnstorableSample.select().exists()
