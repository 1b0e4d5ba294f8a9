"""Randomized simulation: every run ends, whichever worker or controller is killed."""

import random
from dataclasses import dataclass, field, replace

import pytest

from mlbench_master.controller.actions import Action, Ask, Assign, End, MarkLost, StopRanks
from mlbench_master.controller.decisions import decide
from mlbench_master.controller.observed_state import ObservedState, RankView, RunView
from tests.master.controller.worlds import NOW, ORDERED, POLICY, RUNNING, WORLD, workers


@dataclass
class Simulation:
    """A run on a cluster whose workers, ranks and controller fail at random."""

    dice: random.Random
    run: RunView
    now: float = NOW
    since: float = NOW
    """When the run entered its current phase."""
    started: float | None = None
    dead: set[str] = field(default_factory=set)
    end: End | None = None

    def step(self) -> None:
        self._pass_second()
        if self.dice.random() < 0.01:
            self.run = replace(self.run, stop_requested=True, quiet=self.dice.choice([0.0, 60.0]))
        actions = decide(self._world())
        assert decide(self._world()) == actions, "decisions must be deterministic"
        for action in actions:
            if self.dice.random() < 0.1:
                return  # the controller is killed between two actions
            self._perform(action)
            if self.dice.random() < 0.1:
                self._perform(action)

    def _world(self) -> ObservedState:
        there = tuple(worker for worker in workers(3) if worker.name not in self.dead)
        run = replace(self.run, waited=self.now - self.since)
        policy = replace(POLICY, min_workers=3)
        return replace(WORLD, runs=(run,), workers=there, policy=policy)

    def _pass_second(self) -> None:
        self.now += 1
        was = self._progress()
        answered = self.run.answered or self.dice.random() < 0.2
        self.run = replace(self.run, asked=self.run.asked + 1, answered=answered)
        self.run = replace(self.run, ranks=tuple(self._live(rank) for rank in self.run.ranks))
        if self._progress() != was:
            self.since = self.now
        if self.started is not None and self.run.deadline_seconds is not None:
            overdue = self.now - self.started - self.run.deadline_seconds
            self.run = replace(self.run, overdue=overdue)

    def _progress(self) -> tuple[int, bool]:
        return self.run.attempt, all(rank.over for rank in self.run.ranks)

    def _live(self, rank: RankView) -> RankView:
        if self.dice.random() < 0.01:
            self.dead.add(rank.worker)
        if rank.over or rank.worker in self.dead:
            return replace(rank, silent=rank.silent + 1)
        rank = replace(rank, seen_at=self.now, silent=0.0)
        if not rank.reported:
            if rank.stopping:  # like workers.py at the next poll
                return replace(rank, lost="never begun", exited_at=self.now)
            return replace(rank, reported=self.dice.random() < 0.9)
        if rank.exit_code is not None:
            return replace(rank, streams_complete=True)
        if rank.stopping or self.dice.random() < 0.1:
            code = self.dice.choice([0, 0, 0, 1, -9])
            return replace(rank, exit_code=code, exited_at=self.now)
        return rank

    def _perform(self, action: Action) -> None:
        run = self.run
        match action:
            case Assign(_, attempt, names) if attempt == run.attempt + 1:
                assigned = replace(RUNNING, reported=False, seen_at=self.now)
                ranks = [replace(assigned, rank=i, worker=name) for i, name in enumerate(names)]
                self.run = replace(run, attempt=attempt, ranks=tuple(ranks))
                self.since = self.now
                self.started = self.started or self.now
            case Ask():
                self.run = replace(run, asked=0.0, answered=False)
            case StopRanks(_, reason):
                ranks = [replace(rank, stopping=True) for rank in run.ranks]
                self.run = replace(run, ranks=tuple(ranks), stop_reason=reason)
            case MarkLost(_, _, number, heard_at, why):
                ranks = list(run.ranks)
                at = ranks[number].exited_at or heard_at
                ranks[number] = replace(ranks[number], lost=why, exited_at=at)
                self.run = replace(run, ranks=tuple(ranks))
            case End():
                self.end = self.end or action


@pytest.mark.parametrize("seed", range(0, 300, 30))
def test_every_run_ends_in_a_consistent_state(seed: int) -> None:
    for number in range(seed, seed + 30):
        _run_to_end(random.Random(number))  # noqa: S311 - dice, not secrets


def _run_to_end(dice: random.Random) -> None:
    ordered = replace(ORDERED, max_restarts=2)
    ordered = replace(ordered, deadline_seconds=dice.choice([None, 1.0, 10.0]))
    simulation = Simulation(dice, ordered)
    for _ in range(2000):
        simulation.step()
        if simulation.end is not None:
            break
    end, run = simulation.end, simulation.run
    assert end is not None, f"after 2000 s: {run}"
    assert all(rank.over for rank in run.ranks)
    assert (end.state == "STOPPED") <= run.stop_requested
    if end.state == "FINISHED":
        assert not any(rank.lost for rank in run.ranks)
        assert end.reason or all(rank.exit_code == 0 for rank in run.ranks)
    if end.state == "FAILED":
        assert end.reason
        assert not run.ranks or any(rank.exit_code or rank.lost for rank in run.ranks)
