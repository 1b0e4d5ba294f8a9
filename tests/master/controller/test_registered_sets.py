"""Benchmark sets: the next run to submit; no run is submitted twice or lost."""

import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import Database

from mlbench.contract.conversion import convert
from mlbench.contract.records import Planned, RunSet
from mlbench.evaluation.official_rules import Entry, slots_of, waiting_slots
from mlbench_master.controller.registered_sets import Finish, SetRunner, Submit, decide
from mlbench_master.database.connection import NoRoomError, store
from mlbench_master.database.models import Run, open_database
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.runs import benchmark_sets, lifecycle
from mlbench_master.runs.requests import SetRequest
from mlbench_master.settings import InstallationLimits
from tests.support.rows import NO_ARCHIVES

LIMITS = InstallationLimits(workers=4, cpus=2)
SET: dict[str, Any] = {
    "name": "scaling",
    "benchmark": "digits",
    "slots": [{"num_workers": workers, "seed": seed} for seed in (1, 2) for workers in (2, 1)],
}


# --- Decisions ---


def made(
    *states: str, percent: float | None = None, official: bool = False, resumed_after: int = 0
) -> RunSet:
    """Return a running set of 3 repeats of 2 combinations; run i has the state states[i - 1]."""
    plan = [Planned(1, seed, {"lr": lr}) for seed in (1, 2, 3) for lr in ("0.1", "0.2")]
    entries = [Entry(i, i, plan[i - 1].seed, state, "") for i, state in enumerate(states, 1)]
    slots = slots_of("s", plan, entries, official=official)
    waiting = waiting_slots(slots, resumed_after)
    return RunSet("s", "", official, percent, {}, slots, "", "running", "", waiting)


def never() -> bool:
    raise AssertionError("the means must not be computed")


DONE = "FINISHED"


@pytest.mark.parametrize(
    ("run_set", "step"),
    [
        (made(), Submit(1)),
        (made("INITIALIZED"), None),
        (made(DONE, "STARTED"), None),
        (made(DONE), Submit(2)),
        (made("FAILED", "STOPPED", DONE), Submit(4)),
        (made(*[DONE] * 6), Finish()),
        (made(DONE, "FAILED", *[DONE] * 4), Finish()),
        (made(DONE, "FAILED", *[DONE] * 4, resumed_after=6), Submit(2)),
        (made(DONE, "FAILED", *[DONE] * 4, resumed_after=6, official=True), Finish()),
        (made(DONE, percent=5), Submit(2)),
    ],
)
def test_the_next_step_of_a_set(run_set: RunSet, step: Submit | Finish | None) -> None:
    assert decide(run_set, never) == step


def test_each_repeat_checks_the_stop_condition() -> None:
    repeated = made(DONE, DONE, percent=5)
    assert decide(repeated, lambda: False) == Submit(3)
    assert decide(repeated, lambda: True) == Finish("every mean is known to within 5%")


# --- Steps ---


@pytest.fixture
def runner(database: Database) -> SetRunner:
    """A SetRunner whose Prometheus is unreachable."""
    reader = SeriesReader(PrometheusClient("http://127.0.0.1:9", timeout_seconds=0.1), NO_ARCHIVES)
    return SetRunner(reader, LIMITS)


def register(**fields: Any) -> None:
    benchmark_sets.register(convert(SetRequest, {**SET, **fields}), LIMITS)


def describe(name: str = "scaling") -> RunSet:
    return benchmark_sets.describe(benchmark_sets.find(name))


def runs_of(name: str = "scaling") -> list[Run]:
    return list(Run.select().where(Run.set_name == name).order_by(Run.id))


def end_run(state: str = DONE, name: str = "scaling") -> None:
    run = runs_of(name)[-1]
    lifecycle.end(run.id, state=state, reason="", finished_at=1.0)


@pytest.mark.both_databases
def test_the_next_run_is_submitted_after_the_previous_is_sealed(runner: SetRunner) -> None:
    register()
    sealed: Any = ({"sealed_at": 1.0}, {"archive_problem": "x"}, {"finished_at": 1.0})
    for done, fields in enumerate(sealed, 1):
        runner.look()
        [*_, run] = runs_of()
        lifecycle.end(run.id, state=DONE, reason="", finished_at=time.time())
        runner.look()
        assert len(runs_of()) == done, "the next run waits until the samples are sealed"
        store(run, **fields)
    runner.look()
    assert len(runs_of()) == len(sealed) + 1


@pytest.mark.both_databases
def test_runs_are_submitted_one_at_a_time_in_the_order_of_the_plan(runner: SetRunner) -> None:
    register()
    for done in range(4):
        for _ in range(2):
            runner.look()
            assert [run.slot for run in runs_of()] == [*range(1, done + 2)]
        assert describe().state == "running"
        end_run("FAILED" if done == 1 else DONE)
    runner.look()
    ended = describe()
    assert [run.name for run in runs_of()] == [slot.name for slot in ended.slots]
    assert [run.seed for run in runs_of()] == [1, 1, 2, 2]
    assert (ended.state, ended.reason, ended.waiting) == ("finished", "", ())
    assert {state: n for state, n in ended.progress.items() if n} == {"done": 3, "failed": 1}

    benchmark_sets.resume("scaling")
    assert (describe().state, describe().waiting) == ("running", (2,))
    runner.look()
    assert [(run.slot, run.seed) for run in runs_of()][4:] == [(2, 3)]
    end_run()
    runner.look()
    benchmark_sets.resume("scaling")
    runner.look()
    assert (len(runs_of()), describe().state) == (5, "finished")


@pytest.mark.both_databases
def test_a_stopped_set_stops_its_run_and_submits_no_other(runner: SetRunner) -> None:
    register()
    runner.look()
    benchmark_sets.stop("scaling")
    assert (runs_of()[-1].stop_requested, describe().state) == (True, "stopping")
    runner.look()
    end_run("STOPPED")
    runner.look()
    stopped = describe()
    assert (len(runs_of()), stopped.state, stopped.progress["planned"]) == (1, "stopped", 3)
    assert stopped.progress["stopped"] == 1
    benchmark_sets.resume("scaling")
    runner.look()
    assert [(run.slot, run.seed) for run in runs_of()] == [(1, 1), (1, 3)]


def test_sets_take_turns_in_the_queue(runner: SetRunner) -> None:
    register(name="first")
    register(name="second")
    runner.look()
    runner.look()
    assert [(run.set_name, run.slot) for run in Run.select()] == [("first", 1), ("second", 1)]
    end_run(name="first")
    runner.look()
    assert [(run.set_name, run.slot) for run in Run.select()][2:] == [("first", 2)]


def test_a_set_stops_if_a_run_exceeds_new_limits(runner: SetRunner) -> None:
    register()
    small = replace(runner, limits=InstallationLimits(workers=1, cpus=2))
    small.look()
    stopped = describe()
    assert (stopped.state, runs_of()) == ("stopped", [])
    assert stopped.reason.startswith("slot 1 was refused: num_workers: must be at most 1 (got 2)")
    benchmark_sets.resume("scaling")
    runner.look()
    assert (describe().reason, len(runs_of())) == ("", 1)


def test_a_set_waits_for_a_full_disk(runner: SetRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NoRoomError("disk full: /data. Nothing was stored.")

    register()
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "check_room", refuse)
        runner.look()
    waits = describe()
    assert (waits.state, waits.reason) == ("running", "disk full: /data. Nothing was stored.")
    runner.look()
    assert (describe().reason, len(runs_of())) == ("", 1)


def test_a_deleted_run_leaves_its_slot_to_another_one(runner: SetRunner, api: TestClient) -> None:
    register()
    runner.look()
    end_run()
    api.simulate_delete(f"/api/runs/{runs_of()[0].id}/")
    runner.look()
    assert [run.slot for run in runs_of()] == [2]
    assert describe().waiting == (3, 4)


# --- Kills at each statement ---


def _look_in_a_child(url: str, kill_before: int) -> int:
    """Let a child process take the next step, killed before the given SQL statement (from 1).

    BEGIN and COMMIT count as statements. Returns the exit status of the child, which is 0 if it
    executed fewer statements.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        opened: Any = open_database(url)
        statements = itertools.count(1)

        def or_die(act: Callable[..., Any]) -> Callable[..., Any]:
            def acted(*arguments: Any, **options: Any) -> Any:
                if next(statements) == kill_before:
                    os.kill(os.getpid(), signal.SIGKILL)
                return act(*arguments, **options)

            return acted

        for name in ("execute_sql", "begin", "commit"):
            setattr(opened, name, or_die(getattr(opened, name)))
        reader = SeriesReader(PrometheusClient("http://127.0.0.1:9", 0.1), NO_ARCHIVES)
        SetRunner(reader, LIMITS).look()
    except BaseException:
        os._exit(1)
    os._exit(0)


def test_a_controller_killed_at_any_statement_repeats_and_loses_no_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mlbench.db'}"
    opened = open_database(url)
    register(slots=SET["slots"][:2])
    opened.close()

    kills = 0
    for submitted in (1, 2, 3):
        kill_before = 1
        while status := _look_in_a_child(url, kill_before):
            assert os.WIFSIGNALED(status), "the child failed"
            assert os.WTERMSIG(status) == signal.SIGKILL
            kills, kill_before = kills + 1, kill_before + 1
        opened = open_database(url)
        assert [run.slot for run in runs_of()] == [*range(1, min(submitted, 2) + 1)]
        assert describe().state == ("running" if submitted < 3 else "finished")
        if submitted < 3:
            end_run()
        opened.close()
    assert kills > 2 * 10
