"""What a run's streams state about the run itself: its goal, settings and machines."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from master.models import Rank, Run, Stream
from master.recording.samples import Sample, Settings
from mlbench import names
from mlbench.records import Goal, StatedMachine
from mlbench.stated import reaches


def store_goal(run: Run, goals: Sequence[Goal], samples: Sequence[Sample]) -> None:
    """Store the goal that a batch states, and when one of its samples reached it first.

    Batches may come twice, and those of several ranks in any order: the first moment stays.
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


def store_settings(run: Run, stated: Sequence[Settings]) -> None:
    """Store the last settings that a batch states."""
    if stated:
        run.settings = dict(stated[-1].values)
        run.save(only=[Run.settings])


def store_machine(run: Run, stream: Stream, stated: Sequence[StatedMachine]) -> None:
    """Store the first machine that a rank's stream states.

    That is the agent's statement: it is made before the process starts, which cannot replace it.
    """
    if stated:
        Rank.update(machine=asdict(stated[0])).where(
            Rank.run == run,
            Rank.attempt == stream.attempt,
            Rank.rank == stream.rank,
            Rank.machine.is_null(),
        ).execute()


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
