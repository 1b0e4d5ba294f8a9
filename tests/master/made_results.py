"""Making results and facts of runs, for tests of what is made of them."""

from typing import Any

from mlbench.results import Cost, Result, Target, TimeToAccuracy

SAME = {
    "goal": "acc >= 97",
    "data": "digits",
    "data_sha256": "d1",
    "batch_size": "128",
    "num_cpus": "any",
    "max_bandwidth": "any",
    "benchmark": "digits",
    "image": "none",
    "command": "none",
}


def make_result(run_id: int, num_workers: int = 1, **fields: Any) -> Result:
    """Return a result of a run that reached nothing, but for what is given."""
    nothing: dict[str, Any] = {
        "name": "made",
        "benchmark": "digits",
        "state": "FINISHED",
        "division": "closed",
        "departures": (),
        "target": Target("acc", 97.0),
        "time_to_accuracy": None,
        "accuracy_after_time": None,
        "last_value": None,
        "best_value": None,
        "epochs": None,
        "samples": None,
        "training_seconds": None,
        "wall_seconds": None,
        "samples_per_second": None,
        "phases": {},
        "communication_share": None,
        "cost": None,
        "energy_joules": None,
        "curve": None,
    }
    return Result(run_id=run_id, num_workers=num_workers, **(nothing | fields))


def reaching(run_id: int, num_workers: int, seconds: float, **fields: Any) -> Result:
    """Return a result of a run that reached its target after so much training time."""
    return make_result(
        run_id,
        num_workers,
        time_to_accuracy=TimeToAccuracy(seconds, seconds + 5),
        cost=Cost(num_workers * seconds, num_workers * seconds, None, None, None),
        **fields,
    )


def make_facts(num_workers: int = 1, **others: str) -> dict[str, str]:
    """Return facts of a run."""
    return {**SAME, "num_workers": str(num_workers), **others}
