"""Builders of columns, runs, results and facts."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from mlbench.contract.records import Target
from mlbench.contract.results import Cost, Result, TimeToTarget
from mlbench.evaluation.inputs import Column, Columns, RunRow

START = 1_700_000_000.0
"""Start of the run to which the columns belong, in Unix seconds."""

USUAL_ORDER = {"max_bandwidth": "any", "benchmark": "digits"}
USUAL_ORDER |= dict.fromkeys(("latency_ms", "loss_percent", "faults", "image", "command"), "none")
SAME = USUAL_ORDER | {"target": "acc >= 97", "data": "digits", "data_sha256": "d1"}
SAME |= {"batch_size": "128", "num_cpus": "any"}


def at_us(seconds: float) -> int:
    """Convert seconds after the start to microseconds since 1970."""
    return round((START + seconds) * 1e6)


def columns(**series: Mapping[float, float]) -> Columns:
    """Return columns of values by second. ``acc_0`` is ``acc`` of rank 0; ``acc`` has no rank."""
    found: dict[str, dict[str, Column]] = {}
    for name, values in series.items():
        metric, _, rank = name.rpartition("_")
        if not rank.isdecimal():
            metric, rank = name, ""
        column = Column([at_us(seconds) for seconds in values], [float(v) for v in values.values()])
        found.setdefault(metric, {})[rank] = column
    return found


def on_both(**series: Mapping[float, float]) -> dict[str, Any]:
    """Return the series of ranks 0 and 1, which recorded the same values."""
    return {f"{name}_{rank}": values for name, values in series.items() for rank in (0, 1)}


def make_run(**given: Any) -> RunRow:
    """Return a started run of ``steps`` with these fields."""
    return RunRow(**{"id": 1, "name": "made", "benchmark": "steps", "state": "STARTED", **given})


def make_result(run_id: int, num_workers: int = 1, **given: Any) -> Result:
    """Return the result of a finished run without a time to target, with these fields."""
    needed = (one.name for one in fields(Result) if one.default is one.default_factory is MISSING)
    result: dict[str, Any] = dict.fromkeys(needed)
    result |= {"run_id": run_id, "num_workers": num_workers, "name": "made", "benchmark": "digits"}
    result |= {"state": "FINISHED", "division": "closed", "rule_violations": (), "phases": {}}
    result |= {"target": Target("acc", 97.0), "disturbed": (), "interferences": ()}
    return Result(**(result | given))


def reaching(run_id: int, num_workers: int, seconds: float, **given: Any) -> Result:
    """Return the result of a run that reached its target after these seconds of training."""
    return make_result(
        run_id,
        num_workers,
        time_to_target=TimeToTarget(seconds, seconds + 5),
        cost=Cost(num_workers * seconds, num_workers * seconds, None, None, None),
        **given,
    )


def make_facts(num_workers: int = 1, **others: str) -> dict[str, str]:
    """Return the facts of a run."""
    return {**SAME, "num_workers": str(num_workers), **others}
