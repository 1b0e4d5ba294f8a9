"""What is known of a run that another one may differ in, from its order, settings and machines."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from master.comparing import differences
from master.models import Run
from master.recording.samples import spell
from mlbench.results import Result, Target

Machine = Mapping[str, Any]
"""What a rank ran on and with, as its agent states it."""

_ANY = "any"
_NONE = "none"

# By name: what tells runs apart that ran on or with something else.
_OF_MACHINES: Mapping[str, Callable[[Machine], Any]] = {
    "cpu": lambda machine: machine.get("cpu_model"),
    "cpus": lambda machine: machine.get("cpus"),
    "cpu_limit": lambda machine: machine.get("cpu_limit"),
    "gpus": lambda machine: machine.get("gpus"),
    "gpu_driver": lambda machine: machine.get("gpu_driver"),
    "python": lambda machine: machine.get("python"),
    "torch": lambda machine: (machine.get("packages") or {}).get("torch"),
    "mlbench": lambda machine: machine.get("mlbench"),
    "git_commit": lambda machine: (machine.get("git") or {}).get("commit"),
    "git_dirty": lambda machine: (machine.get("git") or {}).get("dirty"),
}
# Told by another name, and no difference.
_LEFT_OUT = ("goal", "seed")
# Of these, None is no value: every run has one.
_KNOWN_OR_NOT = (differences.DATA, differences.DATA_CHECKSUM, differences.BATCH_SIZE)


def facts_of(run: Run, result: Result, machines: Sequence[Machine]) -> dict[str, str]:
    """Return the facts of a run, as ``master.comparing.differences`` takes them.

    Args:
        run: the run.
        result: its figures; what it was judged by is their target.
        machines: those of its ranks, as far as they were stated.
    """
    settings = _settings(run)
    known = {
        differences.GOAL: _goal(result.target),
        differences.DATA: settings.get(differences.DATA, settings.get("dataset")),
        differences.NUM_WORKERS: run.num_workers,
        differences.NUM_CPUS: _ANY if run.num_cpus is None else f"{run.num_cpus:g}",
        differences.MAX_BANDWIDTH: _ANY if run.max_bandwidth is None else f"{run.max_bandwidth:g}",
        differences.BENCHMARK: run.benchmark or _NONE,
        differences.IMAGE: run.image or _NONE,
        differences.COMMAND: " ".join([run.command, *run.command_flags]) if run.command else _NONE,
        differences.WORKING_DIR: run.working_dir or _NONE,
        "division": result.division,
        # Before it has stated its settings, that is all that there is to say.
        "departures": None if run.settings is None else "; ".join(result.departures) or _NONE,
        differences.OWN_GOAL: _goal(Target(**run.goal)) if run.goal else None,
        "deadline_seconds": _NONE if run.deadline_seconds is None else run.deadline_seconds,
        # Keeping checkpoints takes time.
        "max_restarts": run.max_restarts,
        "backend": run.backend,
        "run_all_nodes": run.run_all_nodes,
        **{name: _common(map(get, machines)) for name, get in _OF_MACHINES.items()},
    }
    settings = {name: _text(one) for name, one in settings.items() if known.get(name) is None}
    return {name: _text(one) for name, one in (known | settings).items() if one is not None}


def _settings(run: Run) -> dict[str, Any]:
    """Return what the task runs with; before it says so, what it was told."""
    told = {name.replace("-", "_"): value for name, value in run.args.items()}
    stated = told | (run.settings or {})
    return {
        name: _NONE if value is None else value
        for name, value in stated.items()
        if name not in _LEFT_OUT and not (value is None and name in _KNOWN_OR_NOT)
    }


def _goal(target: Target | None) -> str | None:
    if target is None:
        return None
    return f"{target.metric} {'<=' if target.lower_is_better else '>='} {spell(target.value)}"


def _common(stated: Iterable[Any]) -> str | None:
    """Return what machines have, each thing once; None where none of them says so."""
    known = [one for one in stated if one is not None]
    things = {_text(thing) for one in known for thing in (one if isinstance(one, list) else [one])}
    return ("; ".join(sorted(things)) or _NONE) if known else None


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case float():  # 128.0 is the batch size 128
            return spell(value)
        case _:
            return json.dumps(value)
