"""What each rank of a run did by its own last totals. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from mlbench.contract import names
from mlbench.contract.names import PHASES, UNTRAINED
from mlbench.contract.results import RankDisturbance, RankResult
from mlbench.evaluation.columns import ByRank, Column, Columns, finite_by_rank
from mlbench.evaluation.rows import RankRow
from mlbench.evaluation.statistics import ratio

_OTHER = "other"
_PHASES: Mapping[str, str] = {phase: names.phase_metric(phase) for phase in PHASES}
_NETWORK = (names.NETWORK_SENT, names.NETWORK_RECEIVED)


def last_totals_us(series: Columns) -> Mapping[str, int]:
    """Return when each rank recorded its last samples or phases; else its last training time."""
    totals = (finite_by_rank(series, metric) for metric in (names.SAMPLES, *_PHASES.values()))
    clocks = last_recorded_us([finite_by_rank(series, names.TRAIN_SECONDS)])
    return clocks | last_recorded_us(totals)


def last_recorded_us(totals: Iterable[ByRank]) -> dict[str, int]:
    """Return when each rank recorded its last value of any of these."""
    last: dict[str, int] = {}
    for ranks in totals:
        for rank, column in ranks.items():
            last[rank] = max(column.times_us[-1], last.get(rank, column.times_us[-1]))
    return last


def value_at(column: Column, time_us: int) -> float:
    """Return a total in a millisecond or the next value; the last one if none follows."""
    position = column.first_from(time_us // 1000 * 1000)
    return column.values[min(position, len(column.values) - 1)]


def profiled_among(
    ranks: Sequence[RankRow], samples: ByRank, clocks: ByRank
) -> tuple[float, float]:
    """Return the samples of all ranks, and their mean training seconds, while one was profiled.

    They wait for each other, so all are slower then. What was recorded last before a profile, and
    first after it, bounds what is left out.
    """
    spans = [span for rank in ranks if rank.disturbance for span in rank.disturbance.profiled]
    both = samples.keys() & clocks.keys()
    increases = [_between(samples[rank], clocks[rank], spans) for rank in both]
    return sum(count for count, _ in increases), fmean([count for _, count in increases] or [0.0])


def _between(
    samples: Column, clock: Column, spans: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Return the increase of two totals of a rank over spans, which may overlap."""
    counted = seconds = 0.0
    position = 0
    for began, ended in sorted(spans):
        first = max(position, samples.first_from(round(began * 1e6) + 1) - 1)
        position = min(max(first, samples.first_from(round(ended * 1e6))), len(samples.values) - 1)
        if first < position:
            at, until = samples.times_us[first], samples.times_us[position]
            counted += samples.values[position] - samples.values[first]
            seconds += value_at(clock, until) - value_at(clock, at)
    return counted, seconds


def rank_results(
    series: Columns, disturbances: Sequence[RankDisturbance]
) -> tuple[RankResult, ...]:
    """Return what each rank did. Its totals are of one moment: what came later is left out.

    ``disturbances`` are in order of attempts.
    """
    metrics = (names.SAMPLES, names.TRAIN_SECONDS, names.STEP, *_PHASES.values(), *_NETWORK)
    totals = {metric: finite_by_rank(series, metric) for metric in metrics}
    waiting = {disturbance.rank: disturbance.waiting_share for disturbance in disturbances}
    last_us = {rank: at for rank, at in last_totals_us(series).items() if rank.isdecimal()}
    return tuple(
        _rank_result(totals, rank, last_us[rank], waiting.get(int(rank)))
        for rank in sorted(last_us, key=int)
    )


def _rank_result(
    totals: Mapping[str, ByRank], rank: str, at_us: int, waiting_share: float | None
) -> RankResult:
    def total(metric: str) -> float | None:
        column = totals[metric].get(rank)
        return value_at(column, at_us) if column else None

    seconds, steps = total(names.TRAIN_SECONDS), _step_at(totals[names.STEP].get(rank), at_us)
    phases = {phase: total(metric) for phase, metric in _PHASES.items()}
    network = (totals[metric].get(rank) for metric in _NETWORK)
    sent, received = (column.values[-1] if column else None for column in network)
    communication = phases["communication"] if seconds else None
    compute = None if seconds is None or communication is None else seconds - communication
    return RankResult(
        rank=int(rank),
        steps=steps,
        samples=total(names.SAMPLES),
        training_seconds=seconds,
        step_seconds=ratio(seconds, steps),
        compute_seconds=ratio(compute, steps),
        communication_share=ratio(communication, seconds),
        phases=with_other({phase: share for phase, share in phases.items() if share}, seconds),
        waiting_share=waiting_share,
        network_sent_bytes=sent,
        network_received_bytes=received,
    )


def with_other(phases: Mapping[str, float], seconds: float | None) -> dict[str, float]:
    """Add the part of the training time that is in no phase."""
    if not phases or seconds is None:
        return dict(phases)
    known = sum(one for phase, one in phases.items() if phase not in UNTRAINED)
    return {**phases, _OTHER: max(0.0, seconds - known)}


def _step_at(steps: Column | None, at_us: int) -> int | None:
    """Return the step that was recorded together with totals."""
    if steps is None:
        return None
    position = steps.first_from(at_us // 1000 * 1000)
    is_there = position < len(steps.times_us) and steps.times_us[position] // 1000 == at_us // 1000
    return round(steps.values[position]) if is_there else None
