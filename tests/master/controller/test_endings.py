"""Decisions about how a run ends: what is counted, what is named as the cause, and restarts."""

from dataclasses import replace

import pytest

from master.controller.actions import Assign, Count, End, Wait
from master.controller.views import RunView
from master.reading.counting import Counted
from tests.master.controller.test_decisions import (
    COMPLETE,
    NOW,
    RUNNING,
    WORLD,
    decide_for,
    exited,
    lost,
    with_ranks,
    workers,
)

# All ranks were seen to be over just now.
JUST_NOW = replace(WORLD, waited=0.0)

# --- Counting. ---


def test_counts_only_once_everything_is_delivered() -> None:
    ended = with_ranks(exited(0), exited(0))
    assert decide_for(replace(ended, delivered=False)) == []
    assert decide_for(ended) == [Count(7)]
    assert decide_for(replace(ended, delivery=COMPLETE)) == [End(7, "FINISHED")]


def test_a_failed_run_is_counted_too() -> None:
    assert decide_for(with_ranks(exited(0), exited(1)), JUST_NOW) == [Count(7)]


@pytest.mark.parametrize("delivery", [Counted(10, 8, 1), Counted(10, 8, 3), Counted(0, 0, 1)])
def test_a_run_whose_samples_do_not_add_up_fails(delivery: Counted) -> None:
    [end] = decide_for(with_ranks(exited(0), exited(0), delivery=delivery))
    assert end == End(
        7,
        "FAILED",
        f"samples are missing: {delivery.recorded} recorded, "
        f"{delivery.in_prometheus} in Prometheus, {delivery.kept} kept",
    )


def test_a_failed_run_says_both_what_failed_and_what_is_missing() -> None:
    [end] = decide_for(with_ranks(exited(0), exited(3), delivery=Counted(9, 8, 0)))
    assert isinstance(end, End)
    assert end.reason == (
        "rank 1 on w-1 exited with code 3; samples are missing: 9 recorded, 8 in Prometheus, 0 kept"
    )


@pytest.mark.parametrize("delivered", [True, False])
def test_a_run_that_was_stopped_or_failed_waits_for_no_count(delivered: bool) -> None:
    failed = with_ranks(exited(-15), exited(1, at=NOW - 9), delivered=delivered)
    later = replace(WORLD, waited=5.1)
    reason = "rank 1 on w-1 exited with code 1"
    assert decide_for(failed, later) == [End(7, "FAILED", reason, 1)]
    assert decide_for(replace(failed, stop_requested=True), later) == [End(7, "STOPPED")]


def test_a_run_that_failed_just_now_is_counted_first() -> None:
    failed = with_ranks(exited(-15), exited(1))
    assert decide_for(failed, JUST_NOW) == [Count(7)]
    assert decide_for(replace(failed, delivered=False), JUST_NOW) == []


def test_a_run_that_is_to_be_finished_waits_for_its_count() -> None:
    ended = with_ranks(exited(0, at=NOW - 9999), exited(0, at=NOW - 9999), delivered=False)
    assert decide_for(ended) == []
    assert decide_for(replace(ended, delivered=True)) == [Count(7)]


# --- What is named as the cause. ---


def end_of(run: RunView) -> End:
    [end] = decide_for(replace(run, delivery=COMPLETE))
    assert isinstance(end, End)
    return end


def test_the_first_failure_in_time_is_named() -> None:
    """The others failed because it did, or were stopped."""
    end = end_of(with_ranks(exited(-15, at=NOW - 2), exited(1, at=NOW - 5), exited(0, at=NOW - 9)))
    assert end == End(7, "FAILED", "rank 1 on w-1 exited with code 1", failed_rank=1)


def test_of_failures_at_the_same_time_the_lowest_rank_is_named() -> None:
    assert end_of(with_ranks(exited(2), exited(1))).failed_rank == 0


def test_a_worker_that_was_gone_before_others_failed_is_named() -> None:
    end = end_of(with_ranks(exited(1, at=NOW - 20), lost(at=NOW - 31)))
    assert end.reason == "rank 1 is lost: w-1 was not heard of for 31 s"
    assert end.failed_rank == 1


def test_a_worker_that_was_gone_after_another_failed_is_not() -> None:
    assert end_of(with_ranks(exited(1, at=NOW - 40), lost(at=NOW - 31))).failed_rank == 0


def test_a_stopped_run_is_stopped_whatever_its_ranks_say() -> None:
    for ranks in ([exited(-15)] * 2, [exited(0)] * 2, [exited(1), lost()]):
        assert end_of(with_ranks(*ranks, stop_requested=True)) == End(7, "STOPPED")


# --- Restarts. ---

FAILED = with_ranks(exited(1), exited(-15), max_restarts=1)


def test_a_failed_attempt_is_followed_by_another() -> None:
    assert decide_for(FAILED) == [Assign(7, 2, ("w-0", "w-1"))]


def test_not_before_all_its_ranks_are_over() -> None:
    one_left = with_ranks(
        replace(exited(1), stopping=True), replace(RUNNING, stopping=True), max_restarts=1
    )
    assert decide_for(one_left) == []


@pytest.mark.parametrize(
    "run",
    [
        replace(FAILED, max_restarts=0),
        replace(FAILED, attempt=2),
        replace(FAILED, stop_requested=True),
        with_ranks(exited(0), exited(0), max_restarts=1),
    ],
)
def test_no_more_than_asked_for_nor_after_a_stop_nor_after_success(run: RunView) -> None:
    assert decide_for(run, JUST_NOW) == [Count(7)]


def test_a_restart_waits_for_workers_but_not_for_ever() -> None:
    alone = replace(WORLD, workers=workers(1))
    failed = with_ranks(exited(1), exited(1), max_restarts=1)
    waiting = replace(alone, waited=120.0)
    assert decide_for(failed, waiting) == [Wait(7, "1 of 2 workers are there")]
    assert decide_for(replace(failed, stop_requested=True), waiting) == [End(7, "STOPPED")]
    [end] = decide_for(failed, replace(alone, waited=121.0))
    assert end == End(
        7,
        "FAILED",
        "rank 0 on w-0 exited with code 1; no restart: only 1 of 2 workers were there within 120 s",
        failed_rank=0,
    )
