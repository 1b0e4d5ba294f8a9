"""Counting a run: what agrees is believed; what Prometheus lost is delivered again, a few times."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from peewee import Database, fn

from master.controller import settling
from master.controller.settling import Settler
from master.models import Run, Series, Stream, run_owner
from master.reading.counting import SampleCounts, count
from master.reading.promql import PrometheusClient, PrometheusError
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter, UnavailableError
from master.recording.samples import Sample
from tests.conftest import PrometheusServer
from tests.master.making import deliver_all, line, post, record, reload
from tests.master.recording.places import write_labelled

# What the samples of `recorded` count as.
WHOLE = SampleCounts(recorded=9, in_prometheus=7, kept=2)


@pytest.fixture
def settler(own_prometheus: PrometheusServer, database: Database) -> Iterator[Settler]:
    with (
        closing(RemoteWriter(own_prometheus.url)) as writer,
        closing(PrometheusClient(own_prometheus.url)) as prometheus,
    ):
        yield Settler(prometheus, Delivery(writer))


@pytest.fixture
def recorded(run: Run, settler: Settler) -> Run:
    """A run with samples of all kinds, which have all been delivered."""
    now = round(time.time(), 3)
    for rank in (0, 1):
        record(run, b"".join(line(now + i / 1000, a=i) for i in range(3)), rank)
    record(run, line(now, text="kept"))
    post(run_owner(run.id), [Sample("b", "", int(now * 1e6), 1.0), Sample("b", "", 1, 2.0)])
    deliver_all(settler.delivery)
    return run


def redeliveries(run: Run) -> int:
    return int(reload(run).redeliveries)


@pytest.mark.both_databases
def test_what_agrees_is_believed(recorded: Run, settler: Settler) -> None:
    assert settler.count(reload(recorded)) == WHOLE
    assert redeliveries(recorded) == 0


def test_what_is_lost_again_and_again_is_given_up(
    recorded: Run, settler: Settler, own_prometheus: PrometheusServer
) -> None:
    own_prometheus.lose_everything()
    for _ in range(3):
        # Sent, stored and gone: nobody would ever see all of them.
        assert settler.count(reload(recorded)) is None
        Stream.update(delivered=Stream.size).execute()
        Stream.update(recorded=3).where(Stream.owner == run_owner(recorded.id)).execute()
    found = settler.count(reload(recorded))
    assert found is not None
    assert (found.in_prometheus, found.lost) == (0, 9)
    assert redeliveries(recorded) == 3


@pytest.mark.parametrize(
    ("hours", "again"), [(-21.9, True), (-22.1, False), (0.016, True), (0.018, False)]
)
def test_what_would_be_kept_instead_is_not_delivered_again(
    recorded: Run, settler: Settler, own_prometheus: PrometheusServer, hours: float, again: bool
) -> None:
    """As it is too old by now, or in the future by a clock that was set back."""
    moved_ms = round(hours * 3600_000)
    for field in (Series.first_ms, Series.last_ms):
        Series.update({field: field + moved_ms}).execute()
    own_prometheus.lose_everything()
    found = settler.count(reload(recorded))
    assert found == (None if again else SampleCounts(9, 0, 2))
    assert redeliveries(recorded) == int(again)


def test_more_than_was_recorded_is_no_loss(
    recorded: Run, settler: Settler, own_prometheus: PrometheusServer
) -> None:
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(recorded.id), "metric": "extra"}
    newest = Series.select(fn.MAX(Series.last_ms)).scalar()
    assert write_labelled(own_prometheus.url, (foreign, [(newest, 1.0)])).status_code == 204
    assert settler.count(reload(recorded)) == SampleCounts(9, 8, 2)
    assert redeliveries(recorded) == 0


def test_nothing_is_counted_while_prometheus_is_away(
    recorded: Run, settler: Settler, own_prometheus: PrometheusServer
) -> None:
    own_prometheus.kill()
    with pytest.raises(PrometheusError):
        settler.count(reload(recorded))
    record(recorded, line(time.time(), a=9))
    with pytest.raises(UnavailableError):
        settler.count(reload(recorded))
    assert redeliveries(recorded) == 0
    assert Stream.select().where(Stream.delivered == 0).count() == 0


def test_nothing_is_delivered_while_it_is_counted(
    recorded: Run, settler: Settler, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or Prometheus would have a sample that is not yet in the database."""
    deliverer: list[threading.Thread] = []

    def deliver() -> None:
        deliver_all(settler.delivery)
        database.close()  # this thread's connection

    def count_meanwhile(prometheus: PrometheusClient, run_id: int) -> SampleCounts:
        record(recorded, line(time.time(), a=9))
        deliverer.append(threading.Thread(target=deliver))
        deliverer[0].start()
        deliverer[0].join(0.3)
        return count(prometheus, run_id)

    monkeypatch.setattr(settling, "count", count_meanwhile)
    assert settler.count(reload(recorded)) == WHOLE
    deliverer[0].join()
    assert count(settler.prometheus, recorded.id) == SampleCounts(10, 8, 2)
