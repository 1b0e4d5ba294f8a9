"""Facts about a run that its streams report: target, settings, machines, processes, and more."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from mlbench.contract import names
from mlbench.contract.clock import SLACK_SECONDS
from mlbench.contract.records import Interference, ReportedMachine, Target
from mlbench.contract.reported_settings import reaches
from mlbench_master.database.connection import store
from mlbench_master.database.models import Rank, Run, Stream
from mlbench_master.recording import not_recorded
from mlbench_master.recording.samples import Began, Content, Sample, TaskSettings, Unrecorded
from mlbench_master.recording.streams import POSTED
from mlbench_master.runs import run_clock

# Maximum number of processes listed per worker. Samples of further processes are stored, too.
_MAX_PROCESSES = 1024


def store_facts(run: Run, stream: Stream, content: Content) -> None:
    """Store the facts that a batch reports, and when one of its samples reached the target.

    The last target, settings and interference count, and the first machine. The agent states a
    rank's machine before its process starts, and its interference after that has ended: the process
    can replace neither. Dates of samples that cannot be right are noted.
    """
    samples, target = content.samples, run.target
    settings = machine = interference = None
    began: list[Began] = []
    for fact in content.facts:
        match fact:
            case Target():
                target = asdict(fact)
            case TaskSettings(values):
                settings = dict(values)
            case ReportedMachine():
                machine = machine or asdict(fact)
            case Interference():
                interference = asdict(fact)
            case Began():
                began.append(fact)
            case Unrecorded(counts):
                not_recorded.add(run, counts)
    if settings is not None:
        store(run, settings=settings)
    of_rank = (Rank.run == run, Rank.attempt == stream.attempt, Rank.rank == stream.rank)
    if machine is not None:
        ahead = Rank.clock_ahead + clock_ahead(machine)
        first = Rank.update(machine=machine, clock_ahead=ahead).where(Rank.machine.is_null())
        first.where(*of_rank).execute()
    if interference is not None:
        Rank.update(interference=interference).where(*of_rank).execute()
    if began and (rank := Rank.get_or_none(*of_rank)) is not None:
        store(rank, processes=with_processes(rank.processes, began))
        store(run, stated_world_size=began[-1].process.world_size)
    _store_target(run, target, samples, _placing(run, stream, samples))
    not_finite = not_finite_after(run.not_finite, samples)
    if not_finite != run.not_finite:
        store(run, not_finite=not_finite)


def not_finite_after(
    earliest: dict[str, Any] | None, samples: Sequence[Sample]
) -> dict[str, Any] | None:
    """Return since when a loss is NaN or infinite, after a batch of samples; None if it is finite.

    A later finite value of the same series resets this to None.
    """
    for sample in samples:
        if sample.metric not in names.LOSSES or not isinstance(sample.value, float):
            continue
        if math.isfinite(sample.value):
            if earliest is not None and (earliest["metric"], earliest["rank"]) == sample[:2]:
                earliest = None
        elif earliest is None:
            # The lines of one step share its first record within a millisecond.
            since_us = sample.time_us // 1000 * 1000
            step = None
            for other in samples:
                is_step = other.metric == names.STEP and other.rank == sample.rank
                if is_step and since_us <= other.time_us <= sample.time_us:
                    step = other.value
            earliest = {
                "metric": sample.metric,
                "rank": sample.rank,
                "step": int(step) if isinstance(step, float) else None,
                "since": sample.time_us / 1e6,
            }
    return earliest


def with_processes(processes: dict[str, Any] | None, began: Iterable[Began]) -> dict[str, Any]:
    """Merge newly started processes into a worker's ranks and its restarts by torchrun.

    The first of each count: no worker has any number of them.
    """
    ranks = set(processes["ranks"] if processes else ())
    restarts: dict[str, float] = dict(processes["restarts"]) if processes else {}
    for start in began:
        number = str(start.process.restart)
        if start.process.rank in ranks or len(ranks) < _MAX_PROCESSES:
            ranks.add(start.process.rank)
        if number in restarts or (number != "0" and len(restarts) < _MAX_PROCESSES):
            restarts[number] = min(start.at, restarts.get(number, start.at))
    return {"ranks": sorted(ranks), "restarts": restarts}


def clock_ahead(machine: dict[str, Any]) -> float:
    """Return by how many seconds a machine's clock is ahead; 0 if it may well be right."""
    ahead = machine.get("clock_offset_seconds") or 0.0
    return ahead if abs(ahead) > (machine.get("clock_uncertainty_seconds") or 0.0) else 0.0


def _placing(run: Run, stream: Stream, samples: Sequence[Sample]) -> Callable[[Sample], float]:
    """Return the function that dates a sample in the run's time.

    Dates of a rank that cannot be right are noted.
    """
    began, now, ahead = run.started_at or 0.0, run_clock.now(run), 0.0
    dates = [sample.time_us / 1e6 for sample in samples]
    if stream.name == POSTED:
        # Posted samples may have any time, by any clock.
        began = min([began, *dates])
    elif dates and not began <= min(dates) <= max(dates) <= now:
        # Wrong clocks are rare, so read the rank's clock offset only now.
        rank = Rank.get_or_none(run=run, attempt=stream.attempt, rank=stream.rank)
        if rank is not None:
            ahead = rank.clock_ahead
            before, after = rank.assigned_at - (min(dates) - ahead), max(dates) - ahead - now
            before = max(rank.dated_before, _wrong(before))
            store(rank, dated_before=before, dated_ahead=max(rank.dated_ahead, _wrong(after)))
    return lambda sample: run_clock.place(sample.time_us / 1e6 - ahead, began, now)


def _wrong(seconds: float) -> float:
    return seconds if seconds > SLACK_SECONDS else 0.0


def _store_target(
    run: Run,
    stated: dict[str, Any] | None,
    samples: Sequence[Sample],
    placed: Callable[[Sample], float],
) -> None:
    """Store a target, and when a sample reached it first.

    Batches may come twice, and those of several ranks in any order: the first moment stays.
    """
    if stated != run.target:
        store(run, target=stated, target_reached_at=None, target_train_seconds=None)
    if not stated:
        return
    target = Target(**stated)
    reaching = (
        sample
        for sample in samples
        if sample.metric == target.metric
        and not isinstance(sample.value, str)
        and reaches(sample.value, target.value, lower_is_better=target.lower_is_better)
    )
    reached = min(reaching, key=placed, default=None)
    if reached is None:
        return
    reached_at = placed(reached)
    if run.target_reached_at is None or reached_at < run.target_reached_at:
        # The training time that the same rank recorded at the same time.
        key = (names.TRAIN_SECONDS, reached.rank, reached.time_us)
        value = next((sample.value for sample in samples if sample[:3] == key), None)
        seconds = None if isinstance(value, str) else value
        store(run, target_reached_at=reached_at, target_train_seconds=seconds)
