"""Life of a run: creation, queue, stop and deletion."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from peewee import Database

from mlbench.contract.conversion import convert
from mlbench_master.database.models import (
    OWNED,
    Chunk,
    Deletion,
    Rank,
    Run,
    SeriesName,
    Stream,
    run_owner,
)
from mlbench_master.errors import ConflictError, NotFoundError
from mlbench_master.recording import blocks
from mlbench_master.recording.samples import Sample
from mlbench_master.runs import deletion, lifecycle
from mlbench_master.runs.requests import RunRequest
from mlbench_master.settings import InstallationLimits
from tests.support.rows import line, make_ranks, make_run, post, record

pytestmark = pytest.mark.both_databases

LIMITS = InstallationLimits(workers=4, cpus=2)


def order(**fields: Any) -> RunRequest:
    return convert(RunRequest, {"name": "a", "benchmark": "steps"} | fields)


def end(run: Run) -> None:
    Run.update(state="FINISHED", finished_at=time.time()).where(Run.id == run.id).execute()


def test_only_one_of_concurrent_requests_is_accepted(database: Database) -> None:
    def create(_: int) -> int:
        try:
            return int(lifecycle.create(order(), LIMITS).id)
        except ConflictError:
            return 0
        finally:
            database.close()  # this thread's connection

    with ThreadPoolExecutor(4) as pool:
        taken = [run_id for run_id in pool.map(create, range(8)) if run_id]
    assert len(taken) == 1
    assert Run.select().count() == 1


def test_a_run_can_wait_for_the_active_run(database: Database) -> None:
    first = lifecycle.create(order(), LIMITS)
    with pytest.raises(ConflictError, match="is active"):
        lifecycle.create(order(), LIMITS)
    second = lifecycle.create(order(queue=True), LIMITS)
    assert lifecycle.find_next(1) == [first]
    end(first)
    assert lifecycle.find_next(1) == [second]


def test_several_runs_can_be_active(database: Database) -> None:
    several = replace(LIMITS, concurrent_runs=2)
    first, second = (lifecycle.create(order(), several) for _ in range(2))
    with pytest.raises(ConflictError, match=r"run 1 \(.*\) and run 2 \(.*\) are active"):
        lifecycle.create(order(), several)
    third = lifecycle.create(order(queue=True), several)
    assert lifecycle.find_next(2) == [first], "runs start one after the other"
    Run.update(state="STARTED").where(Run.id == first.id).execute()
    assert lifecycle.find_next(2) == [first, second]
    assert lifecycle.find_next(1) == [first]
    Run.update(state="STARTED").where(Run.id == second.id).execute()
    # Started runs stay active.
    assert lifecycle.find_next(1) == lifecycle.find_next(2) == [first, second]
    assert lifecycle.find_next(3) == [first, second, third]
    assert lifecycle.find_begun() == [first.id, second.id]


def test_a_run_waits_for_a_run_in_deletion(database: Database) -> None:
    first = lifecycle.create(order(), LIMITS)
    lifecycle.delete(first)
    second = lifecycle.create(order(), LIMITS)
    assert lifecycle.find_next(1) == [first]
    with pytest.raises(ConflictError, match="is active"):
        lifecycle.create(order(), LIMITS)
    end(first)
    assert lifecycle.find_next(1) == [second]


def test_a_setting_queues_all_runs(database: Database) -> None:
    always = replace(LIMITS, always_queue=True)
    assert [lifecycle.create(order(), always).state for _ in range(2)] == ["INITIALIZED"] * 2


def test_an_active_run_is_stopped_and_then_deleted(run: Run) -> None:
    lifecycle.stop(run)
    row = lifecycle.find(run.id)
    assert (row.stop_requested, row.delete_requested, row.state) == (True, False, "STARTED")
    assert not lifecycle.delete(run)
    assert lifecycle.find(run.id).delete_requested
    for _ in range(2):  # the controller may be killed and repeat it
        lifecycle.end(run.id, state="STOPPED", finished_at=time.time())
        with pytest.raises(NotFoundError):
            lifecycle.find(run.id)
    ended = make_run(state="FINISHED")
    lifecycle.stop(ended)
    assert not lifecycle.find(ended.id).stop_requested
    assert lifecycle.delete(ended)


def test_deletion_removes_all_data_of_one_run_only(database: Database) -> None:
    doomed, other = make_run(), make_run()
    for run in (doomed, other):
        make_ranks(run)
        record(run, line(time.time(), a=1))
        owner = run_owner(run.id)
        post(owner, [Sample("a", "", 0, 1.0)])
        series = {"owner": owner, "metric": "a", "rank": ""}
        SeriesName.create(**series)
        blocks.add(owner, [Sample("a", "", 0, 1.0)], is_posted=False)
    before = {table: table.select().count() for table in (Run, Rank, Chunk, *OWNED)}
    assert all(before.values())
    end(doomed)
    lifecycle.delete(doomed)
    while deletion.sweep():
        pass
    assert Deletion.select().count() == 0
    for table, count in before.items():
        assert table.select().count() == count // 2, table
    assert {row.run_id for row in Rank.select()} == {other.id}
    assert {row.owner for row in Stream.select()} == {run_owner(other.id)}
    with pytest.raises(NotFoundError):
        lifecycle.find(doomed.id)
