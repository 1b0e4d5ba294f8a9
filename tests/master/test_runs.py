"""Runs as users order them: ids, limits, one at a time, what deletion leaves."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import falcon
import pytest
from peewee import Database
from pydantic import ValidationError

from master import runs
from master.errors import BadFieldError
from master.models import TABLES, KeptSample, Rank, Run, Series, Stream, run_owner
from master.recording import streams
from master.recording.samples import Sample
from master.settings import Limits
from tests.master.making import line, make_ranks, make_run, record

LIMITS = Limits(workers=4, cpus=2)


def order(**fields: Any) -> runs.RunOrder:
    return runs.RunOrder.model_validate({"name": "a", "benchmark": "steps"} | fields)


def end(run: Run) -> None:
    Run.update(state="FINISHED", finished_at=time.time()).where(Run.id == run.id).execute()


def test_an_order_has_defaults(database: Database) -> None:
    run = runs.create(order(), LIMITS)
    assert (run.state, run.attempt, run.num_workers) == ("INITIALIZED", 0, 2)
    assert (run.num_cpus, run.max_restarts, run.args) == (None, 0, {})
    assert not run.stop_requested
    assert runs.find_active() == run
    assert runs.find(run.id).job_id == run.job_id


@pytest.mark.parametrize("name", ["a", "7", "digits-2", "a" * 40, "a--b"])
def test_names_fit_kubernetes(name: str) -> None:
    assert order(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a_b", "a.b", "a b", "ü", "a\n", "a" * 41, "a\x00", None, []]
)
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(ValidationError, match="name"):
        order(name=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"benchmark": "nonsense"},
        {"benchmark": None},
        {"num_workers": 0},
        {"num_workers": -1},
        {"num_workers": 1.5},
        {"num_workers": "many"},
        {"num_workers": float("nan")},
        {"num_cpus": 0},
        {"max_restarts": -1},
        {"max_restarts": 101},
        {"args": []},
        {"args": {"--a": "1"}},
        {"args": {"a b": "1"}},
        {"args": {"a\n": "1"}},
        {"args": {"": "1"}},
        {"args": {"a": None}},
        {"args": {"a": ["1"]}},
        {"args": {"a": "nul \x00"}},
        {"args": {"a": "x" * 1025}},
        {"args": {f"a{i}": "1" for i in range(101)}},
        {"unknown": 1},
    ],
)
def test_wrong_fields_are_named(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        order(**fields)


def test_numbers_among_the_arguments_are_texts() -> None:
    assert order(args={"epochs": 3, "lr": 0.1}).args == {"epochs": "3", "lr": "0.1"}


def test_no_more_is_given_than_there_is(database: Database) -> None:
    with pytest.raises(BadFieldError, match="400"):
        runs.create(order(num_workers=5), LIMITS)
    with pytest.raises(BadFieldError, match="400"):
        runs.create(order(num_cpus=3), LIMITS)
    assert not Run.select().exists()
    assert runs.create(order(num_workers=4, num_cpus=2), LIMITS).num_workers == 4


def test_of_orders_at_the_same_time_one_is_taken(database: Database) -> None:
    def create(_: int) -> int:
        try:
            return int(runs.create(order(), LIMITS).id)
        except falcon.HTTPConflict:
            return 0
        finally:
            database.close()  # this thread's connection

    with ThreadPoolExecutor(4) as pool:
        taken = [run_id for run_id in pool.map(create, range(8)) if run_id]
    assert len(taken) == 1
    assert Run.select().count() == 1


def test_ids_are_never_used_again(database: Database) -> None:
    ids = []
    for _ in range(3):
        run = runs.create(order(), LIMITS)
        ids.append(run.id)
        end(run)
        runs.delete(run)
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("run_id", [0, -1, 12345, 2**63 - 1, 2**63, -(2**63) - 1, 10**30])
def test_an_unknown_run_is_not_found(database: Database, run_id: int) -> None:
    with pytest.raises(falcon.HTTPNotFound):
        runs.find(run_id)


def test_stopping_is_a_wish_that_only_active_runs_hear(run: Run) -> None:
    runs.stop(run)
    assert runs.find(run.id).stop_requested
    assert runs.find(run.id).state == "STARTED"
    ended = make_run(state="FINISHED")
    runs.stop(ended)
    assert not runs.find(ended.id).stop_requested


def test_an_active_run_cannot_be_deleted(run: Run) -> None:
    with pytest.raises(falcon.HTTPConflict):
        runs.delete(run)
    assert runs.find(run.id) == run


def test_deletion_takes_all_of_one_run_and_nothing_of_another(database: Database) -> None:
    doomed, other = make_run(), make_run()
    for run in (doomed, other):
        make_ranks(run)
        record(run, line(time.time(), a=1))
        owner = run_owner(run.id)
        streams.append_samples(owner, [Sample("a", "", 0, 1.0)])
        Series.create(owner=owner, metric="a", rank="", first_ms=1, last_ms=2)
        KeptSample.create(owner=owner, metric="a", rank="", time_us=1, value="text")
    before = {table: table.select().count() for table in TABLES}
    end(doomed)
    runs.delete(doomed)
    for table, count in before.items():
        assert table.select().count() == count // 2, table
    assert {row.run_id for row in Rank.select()} == {other.id}
    assert {row.owner for row in Stream.select()} == {run_owner(other.id)}
    with pytest.raises(falcon.HTTPNotFound):
        runs.find(doomed.id)
