"""Results and comparisons of stored runs, with a real Prometheus."""

import json
import time
import uuid
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

import pytest
from peewee import Database

from mlbench.contract.records import Target
from mlbench.contract.results import TimeToTarget
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria
from mlbench_master.database.models import Run, run_owner
from mlbench_master.errors import NotFoundError
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.results.result_query import result_of, used_joules
from mlbench_master.runs import lifecycle
from tests.support.known import known
from tests.support.recording import Recording
from tests.support.rows import TimeSeries, line, make_ranks, make_run, post, record, send

_TARGET = {"metric": "acc", "value": 97.0, "lower_is_better": False}


@pytest.fixture
def started_at(database: Database) -> float:
    """A minute ago, at a full second."""
    return float(round(time.time()) - 60)


def make_ended(started_at: float, seconds: float = 50.0, **fields: Any) -> Run:
    """Store a run that has ended, with its ranks, each of which was taken for all the time."""
    times = {"started_at": started_at, "finished_at": started_at + seconds}
    run = make_run(**{"state": "FINISHED", "target": _TARGET, **times, **fields})
    workers = [f"w-{rank}" for rank in range(run.num_workers)]
    make_ranks(run, workers, assigned_at=started_at, exited_at=started_at + seconds)
    return run


def record_accuracy(run: Run, values: Mapping[float, float], rank: int = 0) -> None:
    """Record an accuracy at each second, along with 0.5 training seconds for each."""
    start = run.started_at or 0.0
    lines = [line(start + s, train_seconds=s / 2, acc=v) for s, v in values.items()]
    record(run, b"".join(lines), rank)


@pytest.mark.both_databases
def test_a_steady_result(started_at: float, reader: SeriesReader, recording: Recording) -> None:
    run = make_ended(started_at)
    for rank in (0, 1):
        record_accuracy(run, {10: 90, 20: 97 - rank, 30: 98}, rank)
        record(run, line(started_at + 31, samples=700, forward_seconds=9), rank)
    results = []
    for _ in range(2):
        results.append(result_of(reader, run, Criteria(price=0.5)))
        recording.run_all()
    assert results[0] == results[1]
    result = results[0]
    assert result.target == Target("acc", 97.0)
    assert result.time_to_target == TimeToTarget(10.0, 20.0)
    assert (result.training_seconds, result.samples, result.wall_seconds) == (15.0, 1400.0, 50.0)
    assert result.samples_per_second == pytest.approx(1400 / 15)
    assert result.phases == {"forward": 9.0, "other": 6.0}
    cost = known(result.cost)
    assert (cost.worker_seconds, cost.worker_seconds_to_target, cost.total) == (100.0, 40.0, 50.0)
    assert known(result.curve).values == (90.0, 97.0, 98.0)
    assert (result.division, result.energy_joules) == ("closed", None)


def test_samples_that_are_only_in_the_record_count_too(
    started_at: float, reader: SeriesReader, recording: Recording
) -> None:
    run = make_ended(started_at)
    at = started_at + 20
    # Two in one millisecond: the second of each is only in the record, as texts are.
    record(
        run,
        line(at, acc=90, train_seconds=9.9)
        + line(at + 0.0004, acc=97.5, train_seconds=10)
        + line(at + 1, acc="diverged", train_seconds="none")
        + line(at + 2, acc="97_000", train_seconds=11),
    )
    for _ in range(2):
        result = result_of(reader, run)
        assert known(result.time_to_target).training_seconds == 10.0
        assert known(result.time_to_target).wall_seconds == pytest.approx(20.0004)
        assert (result.last_value, result.training_seconds) == (97.5, 11.0)
        recording.run_all()


def test_earlier_values(started_at: float, reader: SeriesReader, recording: Recording) -> None:
    run = make_ended(started_at)
    Run.update(finished_at=None).execute()
    early = (started_at - 0.001, started_at - 1e8)
    post(run_owner(run.id), [Sample("acc", "", round(at * 1e6), 99.0) for at in early])
    Run.update(finished_at=run.finished_at).execute()
    for _ in range(2):
        result = result_of(reader, run)
        assert (result.time_to_target, result.best_value) == (None, None)
        recording.run_all()
    record(run, line(started_at, acc=99))
    assert known(result_of(reader, run).time_to_target).wall_seconds == 0.0


@pytest.mark.parametrize(
    ("hours", "fault"),
    [(24, "up to 86,3?? s after they came"), (-24, "up to 86,380 s before it began")],
)
def test_a_value_whose_date_is_wrong_counts_as_recorded_at_the_end(
    started_at: float, reader: SeriesReader, recording: Recording, hours: int, fault: str
) -> None:
    run = make_ended(started_at)
    record(run, line(started_at + 10, train_seconds=5, acc=90), rank=1)
    at = started_at + 20 + hours * 3600
    record(run, line(at, train_seconds=9.5, acc=98), rank=1)
    recording.run_all()
    result = result_of(reader, lifecycle.find(run.id), Criteria(price=1.0))
    assert result.time_to_target == TimeToTarget(9.5, 50.0)
    assert known(result.cost).to_target == 100
    assert known(result.curve).wall_seconds == (10, 50)
    [text] = result.clock_faults
    counted = "they count as recorded at the end of the run"
    assert fnmatch(text, f"rank 1 dated values {fault}: {counted}")
    target_at = lifecycle.find(run.id).target_reached_at
    assert target_at == pytest.approx(time.time(), abs=10), "when it came"


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_clock_that_is_known_to_be_wrong_is_put_right(
    started_at: float, reader: SeriesReader, recording: Recording, ahead: float
) -> None:
    run = make_ended(started_at)
    machine = {"clock_offset_seconds": ahead, "clock_uncertainty_seconds": 0.01}
    stated = json.dumps({"time": started_at + ahead, "machine": machine}).encode() + b"\n"
    record(run, stated + line(started_at + 20 + ahead, acc=98), rank=1)
    recording.run_all()
    result = result_of(reader, lifecycle.find(run.id))
    assert (result.time_to_target, result.clock_faults) == (TimeToTarget(None, 20.0), ())
    assert lifecycle.find(run.id).target_reached_at == started_at + 20


def test_a_run_has_its_own_criteria(started_at: float, reader: SeriesReader) -> None:
    def limit(run: Run, query: Criteria) -> float | None:
        after = result_of(reader, run, query).accuracy_after_time
        return after.limit_seconds if after else None

    assert limit(make_ended(started_at, deadline_seconds=12.0), OWN_CRITERIA) == 12.0
    without = make_ended(started_at, target=None)
    assert limit(without, OWN_CRITERIA) is None
    assert limit(without, Criteria(Target("acc", 97.0))) == 7200.0


def test_a_run_deleted_meanwhile_has_no_result(started_at: float, reader: SeriesReader) -> None:
    run = make_ended(started_at)
    record_accuracy(run, {10: 98})
    loaded = Run.get_by_id(run.id)
    lifecycle.delete(run)
    with pytest.raises(NotFoundError):
        result_of(reader, loaded)


def measure(writer: RemoteWriter, pod: str, uuid_: str, began_at: float, watts: float) -> None:
    """Have a GPU draw so many watts for a minute, as a scrape every second shows it."""
    labels = {"__name__": "mlbench_gpu_energy_joules_total", "pod": pod, "uuid": uuid_}
    points = [(round((began_at + i) * 1000), 1e6 + watts * i) for i in range(61)]
    send(writer, TimeSeries(labels, points))


def test_energy_is_the_sum_over_the_gpus_of_all_pods(
    prometheus: PrometheusClient, writer: RemoteWriter
) -> None:
    pods = [f"gpu.{uuid.uuid4()}" for _ in range(2)]
    began_at = round(time.time()) - 100.0
    for pod, uuid_, watts in ((pods[0], "a", 300), (pods[0], "b", 100), (pods[1], "a", 400)):
        measure(writer, pod, uuid_, began_at, watts)
    during = (began_at + 10.5, began_at + 50.5)
    assert used_joules(prometheus, pods, *during) == pytest.approx(40 * 800)
    assert used_joules(prometheus, pods[:1], *during) == pytest.approx(40 * 400)
    assert used_joules(prometheus, [*pods, "without-a-gpu"], *during) is None
    assert used_joules(prometheus, [], *during) is None
    assert used_joules(prometheus, pods, began_at, began_at) is None
