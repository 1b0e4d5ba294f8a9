"""Targets, settings and machines in the streams of a run."""

import json
import math
from typing import Any

import pytest

from mlbench.contract.records import Target
from mlbench_master.database.models import Rank, Run, Stream, pod_owner, run_owner
from mlbench_master.recording.run_facts import store_facts
from mlbench_master.recording.samples import Content, Fact, Sample, TaskSettings, read_machine
from mlbench_master.runs import presenters
from mlbench_master.runs.run_events import events_of
from tests.support.recording import Recording
from tests.support.rows import QUIET, make_ranks, post, record

pytestmark = pytest.mark.both_databases

_TARGET = Target("val", 97.0, lower_is_better=False)


def at(second: float, value: float | str, metric: str = "val", rank: str = "0") -> Sample:
    return Sample(metric, rank, round(second * 1e6), value)


def store(run: Run, *samples: Sample, target: Target | None = None) -> None:
    store_facts(run, Stream(), Content([*samples], [target] if target else []))


def reached(run: Run) -> tuple[float | None, float | None]:
    found = Run.get_by_id(run.id)
    return found.target_reached_at, found.target_train_seconds


def stated(**fields: Any) -> bytes:
    return json.dumps({"time": 1763683200.5} | fields).encode() + b"\n"


_LOW = Target("val", 0.5, lower_is_better=True)
_EARLY = [at(5.25, 9.0, "train_seconds", "1"), at(5.25, 3.0, "train_seconds"), at(5.25, 98.0)]
_LATE = [at(5.5, 4.0, "train_seconds", "1"), at(5.5, 98.0, rank="1")]


@pytest.mark.parametrize(
    ("batches", "target", "expected"),
    [
        ([[at(1, 90.0)]], _TARGET, (None, None)),
        # The first moment counts, with the training time of its rank.
        ([[at(2, 5.0, "train_seconds"), at(2, 97.0), at(3, 99.0)], [at(4, 98.0)]], _TARGET, (2, 5)),
        # Ranks may be indexed in any order, and twice.
        ([_LATE, _EARLY, _LATE], _TARGET, (5.25, 3.0)),
        ([[at(3, 0.6), at(4, 0.5)]], _LOW, (4.0, None)),
        *(
            ([[at(1, value), at(1, 99.0, "other")]], _TARGET, (None, None))
            for value in (math.nan, "99", 96.9)
        ),
    ],
)
def test_when_a_target_was_reached(
    run: Run, batches: list[list[Sample]], target: Target, expected: tuple[float, float]
) -> None:
    for batch in batches:
        store(run, *batch, target=target)
    assert reached(run) == expected


def test_another_target_resets_the_time_to_target(run: Run) -> None:
    store(run, at(1, 97.5), target=_TARGET)
    store(run, at(2, 97.5), target=_LOW)
    assert reached(run) == (None, None)


def test_the_last_settings_replace_those_before(run: Run) -> None:
    facts: list[Fact] = [TaskSettings({"a": 1, "b": 2}), TaskSettings({"a": 3})]
    store_facts(run, Stream(), Content([], facts))
    store(run)
    assert Run.get_by_id(run.id).settings == {"a": 3}


def test_target_and_settings_are_stored_but_are_not_samples(run: Run, recording: Recording) -> None:
    settings = {"learning_rate": 0.1, "compile": False, "folder": None, "device": "cpü", "n": 2**60}
    target = {"metric": "val", "value": 97.0}
    stream = record(run, stated(goal=target) + stated(settings=settings))
    recording.index_all()
    assert stream.get_by_id(stream.id).recorded == 0
    record(run, stated(metrics={"train_seconds": 12.5, "val": 97.25}))
    recording.index_all()
    assert reached(run) == (1763683200.5, 12.5)
    row = Run.get_by_id(run.id)
    assert (row.settings, row.target) == (settings, target | {"lower_is_better": False})


def hostnames(run: Run) -> list[str | None]:
    """Return the machines of the latest attempt's ranks, by name."""
    ranks = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt).order_by(Rank.rank)
    return [rank.machine and rank.machine["hostname"] for rank in ranks]


def test_the_first_machine_of_each_rank_stays(run: Run, recording: Recording) -> None:
    make_ranks(run)
    git = {"commit": "c", "dirty": True, "root": "/ü"}
    machine = {"hostname": "agent", "packages": {"torch": "2.13.0"}, "git": git}
    record(run, stated(machine=machine) + stated(machine={"hostname": "training"}))
    recording.index_all()
    record(run, stated(machine={"hostname": "training"}))
    record(run, stated(machine={"hostname": "b"}), rank=1)
    recording.index_all()
    assert hostnames(run) == ["agent", "b"]
    assert Rank.get(run=run, rank=0).machine == read_machine(machine).to_fields()


def test_the_last_disturbance_counts_which_the_agent_states(run: Run, recording: Recording) -> None:
    make_ranks(run)
    record(run, stated(interference=QUIET | {"seconds": 99}) + b"\n" + stated(interference=QUIET))
    recording.index_all()
    assert Rank.get(run=run, rank=0).interference == QUIET | {
        "profiled": [],
        "stack_waiting_seconds": None,
        "ready_thread_seconds": None,
        "stopped": [],
    }
    assert Rank.get(run=run, rank=1).interference is None


def process(rank: int, restart: int = 0, at: float = 1763683200.5) -> bytes:
    return stated(time=at, process={"rank": rank, "world_size": 4, "restart": restart})


def test_processes_have_ranks_and_restarts(run: Run, recording: Recording) -> None:
    make_ranks(run)
    record(run, process(2) + process(3) + process(2, 1, 1763683205.0), rank=1)
    recording.index_all()
    record(run, process(3, 1, 1763683204.0), rank=1)
    recording.index_all()
    row = Run.get_by_id(run.id)
    described = presenters.describe(row)
    assert (row.num_workers, described.world_size) == (2, 4)
    assert [rank.processes for rank in described.ranks] == [(0,), (2, 3)]
    [event] = [event for event in events_of(row) if event.kind == "restarted"]
    assert (event.rank, event.attempt) == (1, 1)
    assert event.time == "2025-11-21T00:00:04.000000Z"
    assert event.text == "torchrun on w-1 restarted its processes (restart 1)"


def test_the_number_of_processes_of_a_worker_is_limited(run: Run, recording: Recording) -> None:
    make_ranks(run)
    processes = [{"rank": i, "world_size": 5000, "restart": i} for i in range(2000)]
    record(run, b"".join(stated(process=process) for process in processes))
    recording.index_all()
    found = Rank.get(run=run, rank=0).processes
    assert found["ranks"] == list(range(1024))
    assert len(found["restarts"]) == 1024


def test_each_attempt_reports_its_machine(run: Run, recording: Recording) -> None:
    make_ranks(run)
    record(run, stated(machine={"hostname": "first"}))
    run.attempt = 2
    run.save()
    make_ranks(run)
    record(run, stated(machine={"hostname": "second"}))
    recording.index_all()
    assert hostnames(run) == ["second", None]
    assert Rank.get(run=run, attempt=1, rank=0).machine["hostname"] == "first"


def test_machines_are_of_ranks_and_targets_of_runs(run: Run, recording: Recording) -> None:
    make_ranks(run)
    post(run_owner(run.id), [Sample("machine", "", 1763683200_500000, '{"hostname": "a"}')])
    post(pod_owner("p"), [at(1, 99.0)])
    recording.index_all()
    assert hostnames(run) == [None, None]
    record(run, stated(metrics={"val": 99.0}) + stated(machine={"hostname": "late"}))
    run.delete_instance()
    recording.index_all()
    assert Run.select().count() == 0


def loss(value: float, at: int, metric: str = "train_loss", rank: str = "0") -> list[Sample]:
    """Return a loss and its step, which is ten times the second."""
    return [Sample(metric, rank, at * 10**6, value), Sample("step", rank, at * 10**6, 10.0 * at)]


def test_the_time_since_which_the_loss_is_not_finite(run: Run, recording: Recording) -> None:
    def store(*rows: list[Sample]) -> object:
        stream = record(run, b"")
        samples = [sample for row in rows for sample in row]
        store_facts(Run.get_by_id(run.id), stream, Content(samples, []))
        return Run.get_by_id(run.id).not_finite

    assert store(loss(0.5, 1), loss(math.nan, 2, "global_cum_comp_loss")) is None
    wrong = {"metric": "train_loss", "rank": "1", "step": 40, "since": 4.0}
    assert store(loss(0.5, 3), loss(math.nan, 4, rank="1")) == wrong
    assert store(loss(math.inf, 5, rank="1"), loss(0.5, 5)) == wrong
    assert store(loss(0.5, 6, rank="1")) is None
    first = store(loss(math.nan, 7), loss(0.5, 8), loss(-math.inf, 9))
    assert first == {"metric": "train_loss", "rank": "0", "step": 90, "since": 9.0}


def test_a_loss_has_the_step_of_an_earlier_line(run: Run, recording: Recording) -> None:
    lines = [
        stated(time=1763683200.5001, step=6, metrics={"samples": 8}),
        stated(time=1763683200.5003, step=7, metrics={"samples": 16}),
        stated(time=1763683200.5004, step=7, metrics={"train_loss": math.nan}),
        stated(time=1763683200.5007, step=8, metrics={"samples": 24}),
    ]
    record(run, b"".join(lines))
    recording.index_all()
    assert Run.get_by_id(run.id).not_finite["step"] == 7
