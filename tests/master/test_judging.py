"""Judging runs from what is stored of them, in a real Prometheus and both databases."""

import time
from collections.abc import Mapping
from typing import Any

import falcon
import pytest
from peewee import Database

from master import judging, runs
from master.judging import Wish, judge, judge_together
from master.models import Rank, Run, run_owner
from master.reading.columns import Columns, to_columns
from master.reading.promql import PrometheusClient, PrometheusError
from master.reading.series import NamedSeries, SeriesReader
from master.recording.delivery import Delivery
from master.recording.samples import Sample
from mlbench.results import Result, Target
from tests.conftest import free_port
from tests.master.making import line, make_ranks, make_run, post, record

_GOAL = {"metric": "acc", "value": 97.0, "lower_is_better": False}


@pytest.fixture
def reader(prometheus: PrometheusClient) -> SeriesReader:
    return SeriesReader(prometheus)


@pytest.fixture
def started_at(database: Database) -> float:
    """A minute ago, at a full second."""
    return float(round(time.time()) - 60)


def make_ended(started_at: float, seconds: float = 50.0, **fields: Any) -> Run:
    """Store a run that has ended, with its ranks, each of which was taken for all the time."""
    times = {"started_at": started_at, "finished_at": started_at + seconds}
    run = make_run(**{"state": "FINISHED", "goal": _GOAL, **times, **fields})
    workers = [f"w-{rank}" for rank in range(run.num_workers)]
    make_ranks(run, workers, assigned_at=started_at, exited_at=started_at + seconds)
    return run


def record_accuracy(run: Run, values: Mapping[float, float], rank: int = 0) -> None:
    """Record an accuracy at each second, along with 0.5 training seconds for each."""
    start = run.started_at or 0.0
    lines = [line(start + s, train_seconds=s / 2, acc=v) for s, v in values.items()]
    record(run, b"".join(lines), rank)


@pytest.mark.both_databases
def test_a_result_is_the_same_before_and_after_delivery(
    started_at: float, reader: SeriesReader, delivery: Delivery
) -> None:
    run = make_ended(started_at)
    for rank in (0, 1):
        record_accuracy(run, {10: 90, 20: 97 - rank, 30: 98}, rank)
        record(run, line(started_at + 31, samples=700, forward_seconds=9), rank)
    results = []
    for _ in range(2):
        results.append(judge(reader, run, Wish(price=0.5)))
        delivery.deliver_waiting()
    assert results[0] == results[1]
    found = results[0]
    assert found.target == Target("acc", 97.0)
    assert found.time_to_accuracy is not None
    assert (found.time_to_accuracy.training_seconds, found.time_to_accuracy.wall_seconds) == (
        10.0,
        20.0,
    )
    assert (found.training_seconds, found.samples, found.wall_seconds) == (15.0, 1400.0, 50.0)
    assert found.samples_per_second == pytest.approx(1400 / 15)
    assert found.phases == {"forward": 9.0, "other": 6.0}
    assert found.cost is not None
    assert (found.cost.worker_seconds, found.cost.worker_seconds_to_target) == (100.0, 40.0)
    assert found.cost.total == 50.0
    assert found.curve is not None
    assert found.curve.values == (90.0, 97.0, 98.0)
    assert (found.division, found.energy_joules) == ("closed", None)


def test_what_prometheus_cannot_hold_counts_as_well(
    started_at: float, reader: SeriesReader, delivery: Delivery
) -> None:
    run = make_ended(started_at)
    at = started_at + 20
    # Two in one millisecond: the second of each is kept. Texts are kept, and no accuracy.
    record(
        run,
        line(at, acc=90, train_seconds=9.9)
        + line(at + 0.0004, acc=97.5, train_seconds=10)
        + line(at + 1, acc="diverged", train_seconds="none")
        + line(at + 2, acc="97_000", train_seconds=11),
    )
    for _ in range(2):
        found = judge(reader, run, Wish())
        assert found.time_to_accuracy is not None
        assert found.time_to_accuracy.training_seconds == 10.0
        assert found.time_to_accuracy.wall_seconds == pytest.approx(20.0004)
        assert (found.last_value, found.training_seconds) == (97.5, 11.0)
        delivery.deliver_waiting()


def test_posted_values_without_a_rank_count_to_the_microsecond(
    started_at: float, reader: SeriesReader, delivery: Delivery
) -> None:
    run = make_ended(started_at)
    at_us = round(started_at * 1e6) + 20_000_123
    post(run_owner(run.id), [Sample("acc", "", at_us - 5, 90.0), Sample("acc", "", at_us, 97.0)])
    for _ in range(2):
        found = judge(reader, run, Wish())
        assert found.time_to_accuracy is not None
        assert found.time_to_accuracy.wall_seconds == pytest.approx(20.000123, abs=1e-9)
        assert found.time_to_accuracy.training_seconds is None
        delivery.deliver_waiting()


def test_a_value_dated_before_the_start_was_not_reached_by_the_run(
    started_at: float, reader: SeriesReader, delivery: Delivery
) -> None:
    run = make_ended(started_at)
    record(run, line(started_at - 0.001, acc=99) + line(started_at - 1e8, acc=99))
    for _ in range(2):
        found = judge(reader, run, Wish())
        assert (found.time_to_accuracy, found.best_value) == (None, None)
        delivery.deliver_waiting()
    record(run, line(started_at, acc=99))
    reached = judge(reader, run, Wish()).time_to_accuracy
    assert reached is not None
    assert reached.wall_seconds == 0.0


def test_runs_are_judged_by_what_is_wished(started_at: float, reader: SeriesReader) -> None:
    run = make_ended(started_at, deadline_seconds=12.0)
    record_accuracy(run, {10: 90, 20: 97, 30: 98})
    own = judge(reader, run, Wish())
    assert own.accuracy_after_time is not None
    assert (own.accuracy_after_time.limit_seconds, own.accuracy_after_time.value) == (12.0, 97.0)
    found = judge(reader, run, Wish(Target("train_seconds", 7.0, lower_is_better=True), 6.0))
    assert found.target == Target("train_seconds", 7.0, lower_is_better=True)
    assert found.time_to_accuracy is not None
    assert found.time_to_accuracy.wall_seconds == 10.0
    assert found.accuracy_after_time is not None
    assert (found.accuracy_after_time.limit_seconds, found.accuracy_after_time.value) == (6.0, 5.0)
    without = make_ended(started_at, goal=None)
    assert judge(reader, without, Wish()).accuracy_after_time is None
    usual = judge(reader, without, Wish(Target("acc", 97.0))).accuracy_after_time
    assert usual is not None
    assert usual.limit_seconds == 7200.0


def test_a_restarted_run_pays_for_all_attempts_and_has_the_clock_of_each(
    started_at: float, reader: SeriesReader
) -> None:
    run = make_ended(started_at, num_workers=1, attempt=2)
    Rank.create(
        run=run,
        attempt=1,
        rank=0,
        worker="w-9",
        assignment={},
        assigned_at=started_at - 1,
        exited_at=started_at + 15,
    )
    Rank.update(assigned_at=started_at + 16).where(Rank.run == run, Rank.attempt == 2).execute()
    record(run, line(started_at + 12, acc=98) + line(started_at + 20, train_seconds=1, acc=50))
    found = judge(reader, run, Wish())
    assert found.time_to_accuracy is not None
    assert found.time_to_accuracy.wall_seconds == 12.0
    assert found.time_to_accuracy.training_seconds is None
    assert found.cost is not None
    assert (found.cost.worker_seconds, found.cost.worker_seconds_to_target) == (16.0 + 34.0, 13.0)


def test_an_active_run_is_judged_up_to_now(started_at: float, reader: SeriesReader) -> None:
    run = make_run(1, started_at=started_at)
    make_ranks(run, ["w-0"], assigned_at=started_at)
    found = judge(reader, run, Wish())
    assert found.state == "STARTED"
    assert found.wall_seconds is not None
    assert found.wall_seconds >= 59
    assert found.cost is not None
    assert found.cost.worker_seconds == pytest.approx(found.wall_seconds)


@pytest.mark.usefixtures("database")
def test_a_run_that_never_started_needs_no_prometheus() -> None:
    away = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    run = make_run(state="STOPPED", goal=_GOAL, finished_at=time.time())
    found = judge(SeriesReader(away), run, Wish())
    assert (found.wall_seconds, found.cost, found.time_to_accuracy) == (None, None, None)
    away.close()


def test_prometheus_away_is_an_error_and_no_empty_result(started_at: float) -> None:
    away = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(PrometheusError):
        judge(SeriesReader(away), make_ended(started_at), Wish())
    away.close()


def test_departures_are_of_what_the_latest_attempt_ran_on(
    started_at: float, reader: SeriesReader
) -> None:
    run = make_ended(started_at, benchmark="steps", settings={})
    Rank.update(machine={"git": {"commit": "c", "dirty": True}}).where(Rank.run == run).execute()
    assert len(judge(reader, run, Wish()).departures) == 1
    Run.update(attempt=2).where(Run.id == run.id).execute()
    assert judge(reader, Run.get_by_id(run.id), Wish()).departures == ()


def test_runs_together_are_grouped_and_compared(
    started_at: float, reader: SeriesReader, delivery: Delivery
) -> None:
    settings = {"batch_size": 128, "data": "digits", "data_sha256": "d1"}
    runs = [
        make_ended(started_at, num_workers=workers, settings=settings | {"seed": seed})
        for workers in (1, 2)
        for seed in range(2)
    ]
    for run, seconds in zip(runs, (40, 44, 20, 22), strict=True):
        record_accuracy(run, {1: 50, seconds: 97})
    delivery.deliver_waiting()
    found = judge_together(reader, runs, Wish())
    assert (found.comparable, found.differences) == ("yes", ())
    assert [one.label for one in found.groups] == ["1 worker", "2 workers"]
    assert [one.speedup for one in found.groups] == [1.0, 2.0]
    assert [one.run_id for one in found.results] == [run.id for run in runs]
    Run.update(settings=settings | {"batch_size": 64}).where(Run.id == runs[3].id).execute()
    again = [Run.get_by_id(run.id) for run in runs]
    assert judge_together(reader, again, Wish()).comparable == "no"


def test_a_long_series_of_losses_is_not_read(
    started_at: float, reader: SeriesReader, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_ended(started_at)
    steps = b"".join(line(started_at + i / 1000, train_loss=i) for i in range(2000))
    record(run, steps + line(started_at + 20, acc=97, train_seconds=10))
    delivery.deliver_waiting()
    read: list[set[tuple[str, str]]] = []

    def noted(series: NamedSeries) -> Columns:
        columns = to_columns(series)
        read.append(set(columns))
        return columns

    monkeypatch.setattr(judging, "to_columns", noted)
    result: Result = judge(reader, run, Wish())
    assert result.last_value == 97.0
    assert read == [{("acc", "0"), ("train_seconds", "0")}]


def test_a_run_that_is_deleted_meanwhile_has_no_result(
    started_at: float, reader: SeriesReader
) -> None:
    run = make_ended(started_at)
    record_accuracy(run, {10: 98})
    loaded = Run.get_by_id(run.id)
    runs.delete(run)
    with pytest.raises(falcon.HTTPNotFound):
        judge(reader, loaded, Wish())
