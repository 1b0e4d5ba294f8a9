"""What a run's streams state about the run itself: its goal, settings and machines."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from master.models import Rank, Run, Stream
from master.recording.samples import Sample, Settings
from mlbench import names
from mlbench.records import Goal, StatedMachine
from mlbench.stated import reaches


def store_facts(
    run: Run,
    stream: Stream,
    facts: Iterable[Goal | Settings | StatedMachine],
    samples: Iterable[Sample],
) -> None:
    """Store what a batch of a stream states: the last goal and settings, the rank's first machine.

    Also when one of its samples reached the goal.
    """
    goal, settings, machine = run.goal, None, None
    for fact in facts:
        match fact:
            case Goal():
                goal = asdict(fact)
            case Settings(values):
                settings = dict(values)
            case StatedMachine():
                machine = machine or asdict(fact)
    _store_goal(run, goal, samples)
    if settings is not None:
        run.settings = settings
        run.save(only=[Run.settings])
    if machine is not None:
        # The first is the agent's, from before the process starts, which cannot replace it.
        Rank.update(machine=machine).where(
            Rank.run == run,
            Rank.attempt == stream.attempt,
            Rank.rank == stream.rank,
            Rank.machine.is_null(),
        ).execute()


def _store_goal(run: Run, stated: dict[str, Any] | None, samples: Iterable[Sample]) -> None:
    """Store a goal, and when a sample reached it first.

    Batches may come twice, and those of several ranks in any order: the first moment stays.
    """
    if stated != run.goal:
        run.goal, run.goal_reached_at, run.goal_train_seconds = stated, None, None
        run.save(only=[Run.goal, Run.goal_reached_at, Run.goal_train_seconds])
    reached = _first_reaching(Goal(**stated), samples) if stated else None
    if reached is None:
        return
    reached_at = reached.time_us / 1e6
    if run.goal_reached_at is None or reached_at < run.goal_reached_at:
        run.goal_reached_at = reached_at
        run.goal_train_seconds = _train_seconds(reached, samples)
        run.save(only=[Run.goal_reached_at, Run.goal_train_seconds])


def _first_reaching(goal: Goal, samples: Iterable[Sample]) -> Sample | None:
    reaching = (
        sample
        for sample in samples
        if sample.metric == goal.metric
        and not isinstance(sample.value, str)
        and reaches(sample.value, goal.value, lower_is_better=goal.lower_is_better)
    )
    return min(reaching, key=lambda sample: sample.time_us, default=None)


def _train_seconds(reached: Sample, samples: Iterable[Sample]) -> float | None:
    """Return the training time that the same rank recorded at the same time."""
    for sample in samples:
        if sample[:3] == (names.TRAIN_SECONDS, reached.rank, reached.time_us):
            return None if isinstance(sample.value, str) else sample.value
    return None
