"""Judging by what the kernel counted whether a rank was disturbed. Pure."""

from collections.abc import Sequence

from mlbench.contract.names import DISTURBED_SHARE
from mlbench.contract.records import Disturbance
from mlbench.contract.results import RankDisturbance
from mlbench.contract.words import count
from mlbench.evaluation.inputs import RankRow

# Programs that used less of a core are not worth a word.
_LEAST_CORES = 0.05
_MUCH_WAITING = 0.5
_LEAST_SHARE = 0.01


def disturbances(ranks: Sequence[RankRow]) -> tuple[RankDisturbance, ...]:
    """Judge the ranks of all attempts, as far as something was measured."""
    restarted = len({rank.attempt for rank in ranks}) > 1
    return tuple(
        _judge(rank, rank.disturbance, restarted=restarted)
        for rank in sorted(ranks, key=lambda rank: (rank.attempt, rank.rank))
        if rank.disturbance
    )


def is_disturbed(measured: Disturbance) -> bool:
    """Judge whether a rank was profiled, was stopped, or waited too long for others' programs."""
    lost = max(measured.waiting_seconds, measured.stolen_seconds or 0.0)
    is_slowed = lost / measured.seconds > DISTURBED_SHARE
    return is_slowed or bool(measured.profiled or measured.stopped)


def _judge(rank: RankRow, measured: Disturbance, *, restarted: bool) -> RankDisturbance:
    stolen = measured.stolen_seconds
    place = rank.worker if rank.processes else f"rank {rank.rank}"
    place += f", attempt {rank.attempt}," if restarted else ""
    return RankDisturbance(
        rank=rank.rank,
        attempt=rank.attempt,
        disturbed=is_disturbed(measured),
        waiting_share=measured.waiting_seconds / measured.seconds,
        stolen_share=None if stolen is None else stolen / measured.seconds,
        text=f"{place} {_words(measured)}",
        measured=measured,
    )


def _words(measured: Disturbance) -> str:
    """Return ``waited for a core 41 % of the time; others used 1.1 of 2 cores (top: …)``."""
    seconds = measured.seconds
    text = f"waited for a core {_percent(measured.waiting_seconds / seconds)} of the time"
    by_stack = (measured.stack_waiting_seconds or 0.0) / seconds
    if by_stack >= _LEAST_SHARE:
        text += f", {_percent(by_stack)} more for MLBench's own processes"
    if measured.own_waiting_seconds > DISTURBED_SHARE * seconds:
        text += f", {_percent(measured.own_waiting_seconds / seconds)} more by its own doing"
    if measured.others_core_seconds is not None:
        used = measured.others_core_seconds / seconds
        text += f"; others used {used:.1f} of {count(measured.cores, 'core')}"
    top = {name: used / seconds for name, used in measured.top.items()}
    named = [f"{name} {used:.1f}" for name, used in top.items() if used >= _LEAST_CORES]
    if named:
        text += f" (top: {', '.join(named)})"
    if measured.stolen_seconds and measured.stolen_seconds > DISTURBED_SHARE * seconds:
        text += f"; its cores were stolen {_percent(measured.stolen_seconds / seconds)} of the time"
    blocked = measured.node_pressure_seconds.get("io", 0.0)
    # Whose it was is not known, so that it is told and not judged. The stack itself waits for some.
    if blocked > _MUCH_WAITING * seconds:
        text += f"; on its machine, programs waited for disks {_percent(blocked / seconds)} of it"
    if measured.profiled:
        text += f"; it was profiled for {sum(end - at for at, end in measured.profiled):.1f} s"
    if measured.stopped:
        text += f"; it was stopped for {sum(end - at for at, end in measured.stopped):.1f} s"
    return text


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
