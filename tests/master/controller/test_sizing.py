"""How large the pool should be, of what shape, and which of its workers must stay."""

from dataclasses import replace

import pytest

from master.controller.actions import Scale
from master.controller.decisions import decide
from master.controller.sizing import wanted_pool
from master.controller.views import Warm
from master.pools.base import Shape
from tests.master.controller.test_decisions import (
    ORDERED,
    RUN,
    RUNNING,
    WORLD,
    exited,
    lost,
    with_ranks,
    workers,
)

SMALL = Shape(num_cpus=0.5)


@pytest.mark.parametrize(("wanted", "usual", "size"), [(1, 2, 2), (2, 2, 2), (5, 2, 5)])
def test_the_pool_grows_to_what_the_run_needs(wanted: int, usual: int, size: int) -> None:
    run = replace(ORDERED, num_workers=wanted, shape=SMALL)
    assert wanted_pool(replace(WORLD, run=run, usual_workers=usual)) == Scale(size, SMALL)


def test_the_pool_stays_warm_for_a_while_and_goes_back() -> None:
    ended = replace(WORLD, warm=Warm(5, SMALL), idle=59.0)
    assert decide(ended) == [Scale(5, SMALL)]
    assert decide(replace(ended, idle=60.0)) == [Scale(2)]
    assert decide(replace(ended, idle_seconds=300, idle=299.0)) == [Scale(5, SMALL)]


def test_no_fewer_than_usual_stay_warm() -> None:
    ended = replace(WORLD, warm=Warm(1, SMALL), idle=1.0)
    assert wanted_pool(ended) == Scale(2, SMALL)


def test_a_run_that_never_began_leaves_nothing_warm() -> None:
    """Its workers may still be waiting for room, and would take it from others."""
    stopped = replace(WORLD, workers=workers(5), idle=1.0)
    assert wanted_pool(stopped) == Scale(2)


def test_workers_with_a_rank_stay_as_they_are() -> None:
    assert wanted_pool(replace(WORLD, run=RUN)).busy == {"uid-0", "uid-1"}


def test_workers_stay_until_the_run_ends_but_lost_ones() -> None:
    """The next attempt begins from the checkpoints that lie with them."""
    run = with_ranks(RUNNING, exited(0), lost())
    assert wanted_pool(replace(WORLD, run=run)).busy == {"uid-0", "uid-1"}


def test_the_pool_never_shrinks_below_a_worker_with_a_rank() -> None:
    """As where an administrator makes it smaller while a run goes on."""
    ranks = (
        replace(RUNNING, worker="w-2", pod_uid="uid-2"),
        replace(exited(1), rank=1, worker="w-3", pod_uid="uid-3"),
    )
    world = replace(WORLD, run=replace(RUN, ranks=ranks), usual_workers=1)
    assert wanted_pool(world) == Scale(4, Shape(), frozenset({"uid-2", "uid-3"}))


def test_a_smaller_run_gets_the_lowest_numbers() -> None:
    """The pool ends the highest ones."""
    crowded = replace(WORLD, workers=workers(5, busy=[0]), idle=1.0)
    scale, *begin = decide(
        replace(crowded, run=replace(ORDERED, waiting="1 of 2 workers are there"))
    )
    assert scale == Scale(2)
    assert begin == []
