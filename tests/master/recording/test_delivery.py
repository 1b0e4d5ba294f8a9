"""Delivery to the real Prometheus: every sample is there or kept, exactly once."""

import json
import math
import time
from typing import Any

import pytest
from peewee import Database

from master.models import Chunk, KeptSample, Run, Series, Stream, run_owner
from master.reading.counting import Counted, count
from master.reading.promql import PrometheusClient
from master.recording import delivery as module
from master.recording import streams
from master.recording.delivery import BATCH_BYTES, Delivery
from master.recording.remote_write import RemoteWriter
from master.recording.samples import Sample
from tests.master.making import key, line, make_run, post, record, time_series

pytestmark = pytest.mark.both_databases

Stored = dict[str, list[tuple[int, str]]]


def in_prometheus(prometheus: PrometheusClient, run: Run) -> Stored:
    """Return what Prometheus has of a run: (milliseconds, value) by metric."""
    found = prometheus.query(f'mlbench_run_metric{{run_id="{run.id}"}}[24h]', time.time() + 120)
    return {
        one.labels["metric"]: [
            (round(t * 1000), value) for t, value in zip(one.times, one.values, strict=True)
        ]
        for one in found
    }


def kept(run: Run) -> list[tuple[str, int, str]]:
    rows = KeptSample.select().where(KeptSample.owner == run_owner(run.id))
    return [(row.metric, row.time_us, row.value) for row in rows.order_by(KeptSample.id)]


def deliver_all(delivery: Delivery) -> None:
    while delivery.deliver_waiting():
        pass
    assert not Stream.select().where(Stream.delivered < Stream.size).exists()


def assert_counts(prometheus: PrometheusClient, run: Run, sent: int, kept: int) -> None:
    assert count(prometheus, run.id) == Counted(sent + kept, sent, kept)


def test_every_value_is_stored_with_its_own_millisecond(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    start = time.time() - 10
    record(run, b"".join(line(start + i / 1000, loss=i / 7, lr=0.1) for i in range(2_000)))
    deliver_all(delivery)
    stored = in_prometheus(prometheus, run)
    first_ms = round(start * 1e6) // 1000
    losses = stored["loss"]
    assert [float(value) for _, value in losses] == [i / 7 for i in range(2_000)]
    assert {ms - first_ms - i for i, (ms, _) in enumerate(losses)} <= {0, 1}
    assert len(stored["lr"]) == 2_000
    assert_counts(prometheus, run, sent=4_000, kept=0)


def test_what_prometheus_cannot_hold_is_kept(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    now = round(time.time(), 3)
    record(
        run,
        line(now, a=1)
        + line(now + 0.0005, a=2)  # a second value in one millisecond
        + line(now, note="best so far")
        + line(now + 70, late=4)  # the future
        + line(now - 23 * 3600 - 60, old=5)
        + line(-1, ancient=6)
        + b"{not json\n",
    )
    deliver_all(delivery)
    assert in_prometheus(prometheus, run) == {"a": [(round(now * 1000), "1")]}
    assert kept(run)[:-1] == [
        ("a", round((now + 0.0005) * 1e6), "2"),
        ("note", round(now * 1e6), "best so far"),
        ("late", round((now + 70) * 1e6), "4"),
        ("old", round((now - 23 * 3600 - 60) * 1e6), "5"),
        ("ancient", -1_000_000, "6"),
    ]
    metric, _, text = kept(run)[-1]
    assert (metric, text) == ("malformed", "{not json")
    assert_counts(prometheus, run, sent=1, kept=6)


def test_what_prometheus_can_hold_reaches_it(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    now_ms = time.time_ns() // 1_000_000
    old_ms = now_ms - 23 * 3600 * 1000 + 60_000
    record(
        run,
        line(now_ms / 1000, nan=math.nan, inf=math.inf, tiny=1e-300, **{'ü "\n\\': 1})
        + line(old_ms / 1000, old=1)
        + line((now_ms + 50_000) / 1000, soon=1),
    )
    deliver_all(delivery)
    stored = in_prometheus(prometheus, run)
    assert stored["nan"] == [(now_ms, "NaN")]
    assert stored["inf"] == [(now_ms, "+Inf")]
    assert float(stored["tiny"][0][1]) == 1e-300
    assert stored['ü "\n\\'] == [(now_ms, "1")]
    assert stored["old"] == [(old_ms, "1")]
    assert stored["soon"] == [(now_ms + 50_000, "1")]
    assert_counts(prometheus, run, sent=6, kept=0)


def test_samples_of_now_are_taken_after_samples_from_the_future(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    """One that reached Prometheus would make it refuse all others for hours."""
    now = time.time()
    record(run, b"".join(line(now + hours * 3600, a=1) for hours in (1, 24, 10_000)))
    deliver_all(delivery)
    record(run, line(now, a=2))
    deliver_all(delivery)
    assert [value for _, value in in_prometheus(prometheus, run)["a"]] == ["2"]
    assert_counts(prometheus, run, sent=1, kept=3)


def test_refused_samples_take_no_others_with_them(
    run: Run, writer: RemoteWriter, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    start_ms = time.time_ns() // 1_000_000 - 1_000
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(run.id), "rank": "0"}
    for metric in ("a", "c"):
        writer.send([time_series(foreign | {"metric": metric}, [(start_ms + 10, -1.0)])])
    record(run, b"".join(line((start_ms + i) / 1000, a=i, b=i, c=i) for i in range(11)))
    deliver_all(delivery)
    ours = [(start_ms + i, str(i)) for i in range(11)]
    theirs = [*ours[:10], (start_ms + 10, "-1")]
    assert in_prometheus(prometheus, run) == {"a": theirs, "b": ours, "c": theirs}
    assert kept(run) == [(metric, (start_ms + 10) * 1000, "10") for metric in ("a", "c")]
    # The two foreign values are found by counting.
    assert count(prometheus, run.id) == Counted(recorded=33, in_prometheus=33, kept=2)


def test_killed_between_sending_and_committing(
    run: Run,
    delivery: Delivery,
    prometheus: PrometheusClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = time.time() - 5
    record(run, b"".join(line(start + i / 2000, a=i, text="x") for i in range(50)))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("advance", "_store_series", "_keep", "note_goals", "note_settings"):
        with monkeypatch.context() as patch:
            patch.setattr(module, step, killed)
            with pytest.raises(KeyboardInterrupt):
                delivery.deliver_waiting()
        stream = Stream.get(owner=run_owner(run.id))
        assert (stream.delivered, stream.recorded) == (0, 0)
        assert kept(run) == []
        # More arrives, so the batch that is sent again is a larger one.
        record(run, line(time.time(), a=1))
    deliver_all(delivery)
    counted = count(prometheus, run.id)
    assert counted.agrees
    assert counted.recorded == 105
    assert counted.in_prometheus == len(in_prometheus(prometheus, run)["a"])


def test_an_old_batch_is_sent_again_after_newer_samples(
    run: Run, writer: RemoteWriter, prometheus: PrometheusClient
) -> None:
    """What out_of_order_time_window in prometheus.yml is for."""
    labels = {"__name__": "mlbench_run_metric", "run_id": str(run.id), "metric": "a"}
    now_ms = time.time_ns() // 1_000_000
    batches = [[(now_ms - 5_000 + i, float(i)) for i in range(n, n + 100)] for n in (0, 100)]
    for batch in (*batches, *batches):
        writer.send([time_series(labels, batch)])
    # A gap that is filled later, hours back.
    writer.send([time_series(labels, [(now_ms - 22 * 3600 * 1000, 7.0)])])
    stored = in_prometheus(prometheus, run)["a"]
    assert len(stored) == 201
    assert stored[0] == (now_ms - 22 * 3600 * 1000, "7")


def test_many_batches_and_cuts_within_lines(
    run: Run, delivery: Delivery, prometheus: PrometheusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    start = time.time() - 5
    data = b"".join(line(start + i / 1000, a=i) for i in range(60))
    for offset in range(0, len(data), 37):
        record(run, data[offset : offset + 37])
        delivery.deliver_waiting()
    deliver_all(delivery)
    assert [value for _, value in in_prometheus(prometheus, run)["a"]] == [
        str(i) for i in range(60)
    ]
    assert_counts(prometheus, run, sent=60, kept=0)
    found = Series.get(owner=run_owner(run.id))
    assert found.samples == 60
    assert 58 <= found.last_ms - found.first_ms <= 60
    # What an active run recorded stays, as Prometheus may lose its disk.
    assert sum(len(chunk.data) for chunk in Chunk.select()) == len(data)


def test_what_nobody_will_count_again_goes_once_it_is_delivered(
    run: Run, delivery: Delivery
) -> None:
    """Samples of pods and of runs that are settled; those of a run that may be counted stay."""
    settled = make_run(state="FAILED", settled_at=time.time())
    others = (run, make_run(state="INITIALIZED"), make_run(state="FAILED"))
    owners = [run_owner(one.id) for one in (*others, settled)] + [f"pod/w-{run.id}"]
    for owner in owners:
        post(owner, [Sample("a", "", time.time_ns() // 1000, 1.0)])
    deliver_all(delivery)
    assert {chunk.stream.owner for chunk in Chunk.select()} == set(owners[:3])


def test_a_torn_last_line_waits_until_the_stream_is_closed(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    now = time.time()
    torn = line(now, a=2)[:-9]
    record(run, line(now, a=1) + torn)
    assert delivery.deliver_waiting()
    assert not delivery.deliver_waiting()
    assert kept(run) == []
    streams.close(run.id, 1, 0, {})
    deliver_all(delivery)
    assert [(metric, text) for metric, _, text in kept(run)] == [("malformed", torn.decode())]
    assert_counts(prometheus, run, sent=1, kept=1)


def test_a_last_line_without_its_end_is_a_sample(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    stream = record(run, line(time.time(), a=1)[:-1])
    streams.close(run.id, 1, 0, {"metrics": stream.size})
    deliver_all(delivery)
    assert_counts(prometheus, run, sent=1, kept=0)


def test_a_line_longer_than_a_batch_does_not_stop_the_stream(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
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
    assert [metric for metric, _, _ in kept(run)] == ["malformed"] * 3
    assert kept(run)[0][2] == f"{long[:4096].decode()}… ({BATCH_BYTES:,} bytes)"
    assert all(len(text) < 5_000 for _, _, text in kept(run))
    assert_counts(prometheus, run, sent=2, kept=3)


@pytest.mark.parametrize(
    "line",
    [
        rb'{"name":"\ud800","value":1,"time":1}',
        rb'{"name":"a","value":"\ud800","time":1}',
        rb'{"name":[],"value":1,"time":1}',
        rb'{"time":1e300,"name":"a","value":1}',
        b"\xff\xfe\x00\xd8",
    ],
)
def test_no_line_holds_up_those_behind_it(
    run: Run, delivery: Delivery, prometheus: PrometheusClient, line: bytes
) -> None:
    good = json.dumps({"name": "a", "value": 1, "time": time.time()}).encode()
    record(run, line + b"\n" + good + b"\n")
    deliver_all(delivery)
    assert_counts(prometheus, run, sent=1, kept=1)


def test_a_goal_is_stored_with_its_run(run: Run, delivery: Delivery) -> None:
    goal: dict[str, Any] = {"metric": "val", "value": 97.0, "lower_is_better": False}
    record(run, json.dumps({"time": 1, "goal": goal | {"value": 1}}).encode() + b"\n")
    record(run, json.dumps({"time": 2, "goal": goal}).encode() + b"\n")
    deliver_all(delivery)
    assert Run.get_by_id(run.id).goal == goal


def test_a_deleted_run_is_skipped(run: Run, delivery: Delivery, database: Database) -> None:
    stream = record(run, line(time.time(), a=1, b="text"))
    other = Stream.create(owner=run_owner(run.id), attempt=1, rank=1, name="metrics")
    stream.delete_instance()
    assert delivery._deliver(stream) == 0
    assert other.id is not None
    assert not Series.select().exists()
    assert not KeptSample.select().exists()


def test_posted_samples_share_a_series_with_recorded_ones(
    run: Run, delivery: Delivery, prometheus: PrometheusClient
) -> None:
    now_us = time.time_ns() // 1_000_000 * 1000
    record(run, line(now_us / 1e6, a=1))
    post(
        run_owner(run.id),
        [Sample("a", "0", now_us, 2.0), Sample("a", "0", now_us + 1000, 3.0)],
    )
    deliver_all(delivery)
    assert in_prometheus(prometheus, run) == {
        "a": [(now_us // 1000, "1"), (now_us // 1000 + 1, "3")]
    }
    assert kept(run) == [("a", now_us, "2")]
    assert_counts(prometheus, run, sent=2, kept=1)
    assert key(run).owner == run_owner(run.id)
