"""The result and totals that the original MLBench's tasks record, computed from a run's result.

Its client reads them: the sentence in ``official_result.txt``, the totals to draw its charts.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench.contract.results import Result
from mlbench_master.database.models import Run
from mlbench_master.reading.points import Points
from mlbench_master.reading.selection import NamedSeries, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_query import result_of

_TARGETS: Final = {
    names.VAL_ACCURACY: "{:g}% Top 1 Validation Accuracy",
    names.VAL_PERPLEXITY: "Validation Perplexity of {:g}",
}
_TIMES: Mapping[str, tuple[Phase, ...]] = {
    "Compute": ("forward", "backward", "optimizer"),
    "Communication": ("communication",),
    "Metrics Computation": ("metrics",),
    "Pre-processing": ("data",),
}
# The loss is computed in the forward pass here.
_TOTALS: Mapping[str, Phase | None] = {
    "batch_load": "data",
    "fwd_pass": "forward",
    "comp_loss": None,
    "backprop": "backward",
    "agg": "communication",
    "opt_step": "optimizer",
    "comp_metrics": "metrics",
}


def sentence(result: Result) -> str:
    """Return the official result of a run; "" if it has not reached a target of the original."""
    target, reached = result.target, result.time_to_target
    seconds = reached.training_seconds if reached else None
    if target is None or seconds is None or target.metric not in _TARGETS:
        return ""
    parts = [f"{_TARGETS[target.metric].format(target.value)} reached in {seconds:.3f} seconds"]
    for name, phases in _TIMES.items():
        # Compiled steps have one phase: the times of the others are unknown.
        known = [result.phases[phase] for phase in phases if phase in result.phases]
        parts += [f"{name}: {sum(known):.3f} seconds"] if known else []
    return ", ".join(parts)


def totals_of(reader: SeriesReader, run: Run, selection: Selection) -> NamedSeries:
    """Yield the totals of a run that has ended, as series of rank 0 with one point.

    Code that uses the original library has recorded its own.
    """
    by_name = {f"{names.MLBENCH_TOTAL}{total} @ 0": phase for total, phase in _TOTALS.items()}
    selected = {name: phase for name, phase in by_name.items() if selection.wants(name)}
    if not selected or run.finished_at is None:
        return
    if any(metric.name.startswith(names.MLBENCH_TOTAL) for metric in reader.metrics(run)):
        return
    phases = result_of(reader, run).phases
    if not phases:
        return
    for name, phase in selected.items():
        seconds = phases.get(phase, 0.0) if phase else 0.0
        point = Points(np.array([round(run.finished_at * 1e6)]), [f"{seconds:.6f}"])
        yield name, iter([point])
