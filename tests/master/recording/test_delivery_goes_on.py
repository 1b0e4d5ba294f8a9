"""Delivery goes on: through an absent Prometheus, a stream that fails, and a count."""

import time
from collections.abc import Sequence

import pytest
from peewee import Database

from mlbench_master.database.models import Run, Stream, run_owner
from mlbench_master.reading.counting import SampleCounts, count
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import delivery as module
from mlbench_master.recording import storing, streams
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.remote_write import RemoteWriter, TimeSeries, UnavailableError, encode
from tests.support.deliverer import Patience
from tests.support.places import decode
from tests.support.rows import line, make_run, record


class Moody(RemoteWriter):
    """A Prometheus that answers as it was told, and takes the rest."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__("http://127.0.0.1:9")
        self._errors = list(errors)
        self.sent: list[str] = []

    def send(self, series: Sequence[TimeSeries]) -> None:
        if self._errors and (error := self._errors.pop(0)):
            raise error
        self.sent += [labels["run_id"] for labels, _ in decode(encode(series))]


def test_it_waits_ever_longer_for_an_absent_prometheus(run: Run) -> None:
    record(run, line(time.time(), a=1))
    away = UnavailableError("away")
    writer = Moody(None, *[away] * 8)
    delivery, stop = SampleDelivery(writer), Patience(times=11)
    delivery.deliver_waiting()
    record(run, line(time.time(), a=2))
    recoveries: list[int] = []
    delivery.run(stop, stop, lambda: recoveries.append(len(writer.sent)), idle_seconds=0.1)
    assert recoveries == [2], "once Prometheus is back, runs are counted"
    assert stop.waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 0.1, 0.1, 0.1])
    assert len(writer.sent) == 2
    writer.close()


@pytest.mark.both_databases
def test_a_stream_that_fails_does_not_hold_up_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, better = (make_run() for _ in range(3))
    for run in (good, bad, better):
        record(run, line(time.time(), a=1))
    right = storing._store_series

    def fails(owner: str, *rest: object) -> None:
        assert owner != run_owner(bad.id)
        right(owner, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(storing, "_store_series", fails)
    writer = Moody()
    delivery = SampleDelivery(writer)
    assert delivery.deliver_waiting()
    assert {s.owner for s in streams.waiting()} == {run_owner(bad.id)}
    record(run, line(time.time() + 1, a=2))
    stop = Patience(times=1)
    delivery.run(stop, stop, lambda: None, idle_seconds=1)
    assert stop.waits == [1, 1], "the others wait for it no longer than always"
    assert {s.owner for s in streams.waiting()} == {run_owner(bad.id)}
    writer.close()


def test_the_active_run_waits_for_no_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they wait for it while Prometheus gives no answer for what it recorded."""
    monkeypatch.setattr(module, "_ROUND_SECONDS", 0.0)
    ended = [make_run(state="FINISHED") for _ in range(3)]
    active = make_run()
    for run in (*ended, active):
        record(run, line(time.time(), a=1))
    writer = Moody(UnavailableError("silent"))
    delivery = SampleDelivery(writer)
    with pytest.raises(UnavailableError):
        delivery.deliver_waiting()
    for _ in ended:
        assert delivery.deliver_waiting()
        record(active, line(time.time(), a=1))
    first, second, third, mine = (str(run.id) for run in (*ended, active))
    assert writer.sent == [first, mine, second, mine, third]
    writer.close()


@pytest.mark.both_databases
def test_two_controllers_deliver_once(
    run: Run,
    delivery: SampleDelivery,
    prometheus: PrometheusClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One is about to end, the other has begun, and both have looked at the same time."""
    now = time.time()
    first, second = line(now, a=1, text="x"), line(now + 1, a=2, text="y")
    monkeypatch.setattr(module, "BATCH_BYTES", len(first) + 5)
    seen = record(run, first + second)
    for _ in range(2):
        delivery._deliver([seen])
        stream = Stream.get(owner=run_owner(run.id))
        assert (stream.delivered, stream.recorded) == (len(first), 2)
        assert count(prometheus, run.id) == SampleCounts(2, 1, 1)
