"""A run's goal: what it wants to reach, as its streams state it, and when it reached that first."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from master.models import Run
from master.recording.samples import Sample
from mlbench import names
from mlbench.goal import reaches
from mlbench.records import Goal


def note_goals(run: Run, goals: Sequence[Goal], samples: Sequence[Sample]) -> None:
    """Store the goal that a delivered batch states, and whether one of its samples reaches it.

    A batch may be noted twice, and batches of several ranks in any order: the first moment stays.
    """
    stated = asdict(goals[-1]) if goals else run.goal
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
    """Return the training time that the same rank recorded in the same moment."""
    for sample in samples:
        if sample[:3] == (names.TRAIN_SECONDS, reached.rank, reached.time_us):
            return None if isinstance(sample.value, str) else sample.value
    return None
