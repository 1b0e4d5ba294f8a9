"""What MLBench's original tracker reports of training time, under the names that results have.

At the end of each epoch, each rank posts how long its batches took, in all and by step of a batch.
When the goal is reached, rank 0 posts the totals until then.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, repeat

from mlbench.contract import names
from mlbench.evaluation.columns import Column, Columns

_BATCHES = "CumulativeTrainTimeEpoch"
# The library's own steps of a batch, and those that its tutorial names; but not its "loss": code of
# all kinds has long series of that name, which are not to be read for nothing.
_STEPS: Mapping[names.Phase, Sequence[str]] = {
    "data": ("batch_load",),
    "forward": ("fwd_pass", "comp_loss", "forward"),
    "backward": ("backprop", "backward"),
    "communication": ("agg",),
    "optimizer": ("opt_step",),
    "metrics": ("comp_metrics",),
}
_PARTS: Mapping[str, Sequence[str]] = {
    names.TRAIN_SECONDS: (_BATCHES,),
    **{names.phase_metric(phase): steps for phase, steps in _STEPS.items()},
}


def _totals(part: str) -> Sequence[str]:
    """Return the names of what is posted of a part when the goal is reached."""
    more = ("TotalCumulativeTrainTime",) if part == _BATCHES else ()
    return (f"global_cum_{part}", *more)


NAMES = tuple(name for parts in _PARTS.values() for one in parts for name in (one, *_totals(one)))
"""The metrics that this reads."""


def add_totals(columns: Columns) -> Columns:
    """Return columns with the totals of the ranks that the original tracker reported.

    What a rank recorded under our names stays.
    """
    ranks = {rank for metric, rank in columns if metric == _BATCHES}
    added = {
        (ours, rank): _sum(columns, parts, rank)
        for rank in ranks
        for ours, parts in _PARTS.items()
        if (ours, rank) not in columns
    }
    return {**columns, **{key: column for key, column in added.items() if column.times_us}}


def _sum(columns: Columns, parts: Sequence[str], rank: str) -> Column:
    """Add the running totals of parts up, with a value whenever one of them changes."""
    changes = sorted(change for part in parts for change in _changes(columns, part, rank))
    now: dict[str, float] = {}
    values = []
    for _, part, total in changes:
        now[part] = total
        values.append(sum(now.values()))
    return Column([at_us for at_us, _, _ in changes], values)


def _changes(columns: Columns, part: str, rank: str) -> Iterator[tuple[int, str, float]]:
    """Yield when a part's running total changed, and to what."""
    if epochs := columns.get((part, rank)):
        yield from zip(epochs.times_us, repeat(part), accumulate(epochs.values), strict=False)
    for name in _totals(part):
        if totals := columns.get((name, rank)):
            yield from zip(totals.times_us, repeat(part), totals.values, strict=False)
