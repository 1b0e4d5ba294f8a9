"""A run as lines of MLPerf's log, ``:::MLLOG {…}``, which MLPerf's compliance checker reads.

The keys are documented in github.com/mlcommons/logging, and the rules for the lines of a run in
``docs/mllog.yaml`` of this package. A key whose value the run has not reported is left out.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal, NamedTuple

from mlbench.contract import names
from mlbench.contract.humanize import count
from mlbench.evaluation.inputs import ByRank, Column, Columns, finite_by_rank
from mlbench.evaluation.official_rules import division
from mlbench.evaluation.result import Accuracy, RunContext

_TARGET = "target_accuracy"


class _Event(NamedTuple):
    time_us: int
    kind: Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]
    key: str
    value: Any = None
    metadata: Mapping[str, Any] = {}

    def __str__(self) -> str:
        fields = {
            "namespace": "",
            "time_ms": self.time_us // 1000,
            "event_type": self.kind,
            "key": self.key,
            "value": self.value,
            "metadata": self.metadata,
        }
        return f":::MLLOG {json.dumps(fields)}\n"


def write(context: RunContext, series: Columns) -> Iterator[str]:
    """Yield the lines of a run so far, in order of time."""
    series = context.line(series).kept(series)
    run, target = context.run, context.target
    started_us = round((run.started_at or run.created_at) * 1e6)
    for key, value in _facts(context).items():
        about = {"lower_is_better": target.lower_is_better} if target and key == _TARGET else {}
        yield str(_Event(started_us, "POINT_IN_TIME", key, value, about))
    if run.started_at is None:
        return
    yield str(_Event(started_us, "INTERVAL_START", "init_start"))
    accuracy = context.accuracy(series)
    reached = accuracy.reached() if accuracy else None
    rank = reached.rank if reached else "0"
    begun = _of(rank, finite_by_rank(series, names.EPOCH))
    if begun is None:
        return
    ended = run.finished_at is not None
    succeeded = reached is not None and run.state == "FINISHED"
    last_us = reached.at_us if reached and succeeded else round(context.ended_at * 1e6)
    yield str(_Event(begun.times_us[0], "INTERVAL_END", "init_stop"))
    yield str(_Event(begun.times_us[0], "INTERVAL_START", "run_start"))
    # With equal times, an evaluation ends before its epoch, which ends before the next one begins.
    events = list(_evaluations(accuracy, rank, begun, last_us)) if accuracy else []
    starts = [at for at in zip(begun.times_us, begun.values, strict=True) if at[0] <= last_us]
    # Each epoch is stopped by the next one, the last by the end of the run.
    ends = [*(time_us for time_us, _ in starts[1:]), *([last_us] if ended else [])]
    for i, (time_us, number) in enumerate(starts):
        metadata = {"epoch_num": round(number) + 1}
        events.append(_Event(time_us, "INTERVAL_START", "epoch_start", None, metadata))
        if i < len(ends):
            events.append(_Event(ends[i], "INTERVAL_END", "epoch_stop", None, metadata))
    yield from map(str, sorted(events, key=lambda event: event.time_us))
    if ended:
        status = {"status": "success" if succeeded else "aborted"}
        yield str(_Event(last_us, "INTERVAL_END", "run_stop", None, status))


def _facts(context: RunContext) -> dict[str, Any]:
    run, target = context.run, context.target
    settings = run.settings or {}
    cpus = sorted({machine.cpu_model for machine in context.machines if machine.cpu_model})
    facts = {
        "submission_benchmark": run.benchmark or run.name,
        "submission_division": division(run),
        "submission_org": "MLBench",
        "submission_platform": ", ".join([count(run.num_workers, "worker"), *cpus]),
        "submission_status": "research",
        "seed": settings.get("seed", run.seed),
        _TARGET: target.value if target else None,
        "opt_name": settings.get("optimizer", "sgd") if "learning_rate" in settings else None,
    }
    facts |= {key: settings.get(name) for name, key in names.MLPERF_KEYS.items()}
    return {key: value for key, value in facts.items() if value is not None}


def _evaluations(accuracy: Accuracy, rank: str, begun: Column, last_us: int) -> Iterator[_Event]:
    """Yield the evaluations of a rank, within epochs.

    Training time excludes evaluations, so it tells the begin of one from the time at its end.
    """
    values = _of(rank, accuracy.values)
    if values is None:
        return
    previous_us = 0
    for time_us, value in zip(values.times_us, values.values, strict=True):
        epoch = bisect_right(begun.times_us, time_us) - 1
        if epoch < 0 or time_us > last_us:
            continue
        since_us = max(begun.times_us[epoch], previous_us)
        before, after = (accuracy.training_seconds(rank, at) for at in (since_us, time_us))
        start_us = time_us
        if before is not None and after is not None:
            start_us = min(time_us, since_us + max(0, round((after - before) * 1e6)))
        metadata = {"epoch_num": round(begun.values[epoch]) + 1}
        yield _Event(start_us, "INTERVAL_START", "eval_start", None, metadata)
        finite = value if isfinite(value) else None  # JSON has neither NaN nor infinity.
        yield _Event(time_us, "POINT_IN_TIME", "eval_accuracy", finite, metadata)
        yield _Event(time_us, "INTERVAL_END", "eval_stop", None, metadata)
        previous_us = time_us


def _of(rank: str, columns: ByRank) -> Column | None:
    """Return the column of a rank, or else of the first one that has any."""
    return columns.get(rank) or next(iter(columns.values()), None)
