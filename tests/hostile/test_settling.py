"""A run that has ended is counted once more: what a power loss took then comes again."""

import time
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from peewee import Database

from master import runs, sweeping
from master.controller import settling
from master.controller.settling import KEPT_SECONDS, Settler
from master.models import Chunk, Run, Series, Stream, run_owner
from master.reading.counting import SampleCounts
from master.reading.promql import PrometheusClient
from master.reading.selection import Selection
from master.reading.series import SeriesReader
from master.recording.delivery import Delivery
from master.recording.remote_write import RemoteWriter
from master.recording.samples import Sample
from tests.conftest import PrometheusServer
from tests.master.making import deliver_all, line, make_run, post, record, reload

# What `make_ended` records.
WHOLE = SampleCounts(recorded=21, in_prometheus=20, kept=1)


class Master:
    """What the controller does with samples, a step at a time."""

    def __init__(self, server: PrometheusServer) -> None:
        self.server = server
        self.writer, self.prometheus = RemoteWriter(server.url), PrometheusClient(server.url)
        self.delivery = Delivery(self.writer)
        self.settler = Settler(self.prometheus, self.delivery, look_seconds=0.0)

    def make_ended(self, state: str = "FINISHED") -> Run:
        """Store a run that has ended just now, and deliver and count it."""
        run = make_run(state=state, finished_at=time.time())
        record(run, b"".join(line(time.time() - 1 + i / 1000, a=i) for i in range(20)))
        record(run, line(time.time(), text="kept"))
        deliver_all(self.delivery)
        self.settler.turn()
        assert reload(run).delivery == asdict(WHOLE)
        return run

    def values(self, run: Run) -> int:
        series = SeriesReader(self.prometheus).run(run.id, Selection())
        return sum(len(points) for _, pieces in series for points in pieces)


@pytest.fixture
def master(own_prometheus: PrometheusServer, database: Database) -> Iterator[Master]:
    found = Master(own_prometheus)
    yield found
    found.writer.close()
    found.prometheus.close()


def age(*ended: Run, seconds: float = KEPT_SECONDS + 1) -> None:
    """Have runs ended so long ago."""
    ids = [run.id for run in ended]
    Run.update(finished_at=time.time() - seconds).where(Run.id.in_(ids)).execute()


@pytest.mark.both_databases
def test_what_a_power_loss_took_right_after_the_end_is_delivered_again(master: Master) -> None:
    """As soon as Prometheus is back, though nothing was on its way to it meanwhile."""
    run = master.make_ended()
    master.server.lose_everything()
    master.settler.turn()
    assert (reload(run).delivery, reload(run).redeliveries) == (None, 1)
    assert master.values(run) == WHOLE.recorded, "what waits can be read"
    master.settler.turn()
    assert reload(run).delivery is None, "it is not counted half delivered"
    deliver_all(master.delivery)
    assert master.values(run) == WHOLE.recorded
    master.settler.turn()
    assert (reload(run).delivery, reload(run).state) == (asdict(WHOLE), "FINISHED")


@pytest.mark.parametrize("seconds", [KEPT_SECONDS + 1, -KEPT_SECONDS - 1])
def test_an_hour_after_the_end_a_run_is_counted_for_the_last_time(
    master: Master, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Also if a clock that was set back says that the end is still to come."""
    run, young = master.make_ended(), master.make_ended()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    age(run, seconds=seconds)
    for step in ("forget_some", "forget_delivered"):
        with monkeypatch.context() as patch:
            patch.setattr(settling, step, killed)
            with pytest.raises(KeyboardInterrupt):
                master.settler.turn()
        assert reload(run).settled_at is None
    master.settler.turn()
    assert reload(run).settled_at == pytest.approx(time.time(), abs=10)
    assert reload(run).delivery == asdict(WHOLE)
    assert reload(young).settled_at is None
    assert {chunk.stream.owner for chunk in Chunk.select()} == {run_owner(young.id)}
    # What comes later still goes as soon as it is delivered.
    post(run_owner(run.id), [Sample("late", "", time.time_ns() // 1000, 1.0)])
    deliver_all(master.delivery)
    assert {chunk.stream.owner for chunk in Chunk.select()} == {run_owner(young.id)}
    assert master.values(run) == WHOLE.recorded + 1


def test_what_is_missing_by_then_is_delivered_once_more(master: Master) -> None:
    """Of a Prometheus that says nothing of it, as one whose series were deleted."""
    run = master.make_ended()
    master.server.lose_everything()
    master.settler._prometheus_began = master.prometheus.began()
    age(run)
    master.settler.turn()
    assert (reload(run).settled_at, reload(run).delivery) == (None, None)
    deliver_all(master.delivery)
    master.settler.turn()
    assert reload(run).delivery == asdict(WHOLE)
    assert reload(run).settled_at is not None
    assert Chunk.select().count() == 0


def test_a_stopped_run_whose_count_disagrees_later_says_so(master: Master) -> None:
    run = make_run(state="STOPPED", finished_at=time.time(), redeliveries=3, reason="why\nstderr")
    record(run, line(time.time(), a=1, b=2))
    deliver_all(master.delivery)
    master.server.lose_everything()
    for _ in range(2):
        master.settler.turn()
        missing = "samples are missing: 2 recorded, 0 in Prometheus, 0 kept"
        assert reload(run).reason == f"why; {missing}\nstderr"
        assert reload(run).delivery == asdict(SampleCounts(2, 0, 0))
        age(run)
    assert reload(run).settled_at is not None


def test_a_run_can_be_deleted_while_it_waits_to_be_counted(master: Master) -> None:
    run = make_run(state="STOPPED", finished_at=time.time())
    record(run, line(time.time(), a=1))
    master.server.kill()
    with pytest.raises(Exception, match="refused"):
        master.settler.turn()
    runs.delete(reload(run))
    master.server.start()
    master.settler.ask(run.id)
    master.settler.turn()
    deliver_all(master.delivery)
    while sweeping.sweep():
        pass
    assert Run.get_or_none(Run.id == run.id) is None
    assert Stream.select().count() == Chunk.select().count() == Series.select().count() == 0


def test_runs_that_are_settled_cost_nothing(database: Database) -> None:
    unsettled = Run.select(Run.id).where(Run.settled_at.is_null(), settling._is_due())
    sql, values = unsettled.order_by(Run.id).sql()
    [plan, *_] = database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    assert "USING INDEX run_settled_at" in plan[-1]
