"""The facts of a run in which another one may differ: its order, settings and machines."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from master.models import Run
from mlbench.evaluation import differences as names
from mlbench.records import Goal
from mlbench.results import Result
from mlbench.series import spell

Machine = Mapping[str, Any]
"""The machine of a rank, as its agent states it."""

_ANY = "any"
_NONE = "none"
_HERE, _ELSEWHERE = "here", "elsewhere"


def _package(name: str, machine: Machine) -> Any:
    return (machine.get("packages") or {}).get(name)


_OF_MACHINES: Mapping[str, Callable[[Machine], Any]] = {
    "cpu": lambda machine: machine.get("cpu_model"),
    "cpus": lambda machine: machine.get("cpus"),
    "cpu_limit": lambda machine: machine.get("cpu_limit"),
    "memory_limit": lambda machine: machine.get("memory_limit_bytes"),
    "gpus": lambda machine: machine.get("gpus"),
    "gpu_driver": lambda machine: machine.get("gpu_driver"),
    "os": lambda machine: machine.get("os"),
    "python": lambda machine: machine.get("python"),
    **{name: partial(_package, name) for name in ("torch", "numpy", "jax", "tensorflow")},
    "mlbench": lambda machine: machine.get("mlbench"),
    "git_commit": lambda machine: (machine.get("git") or {}).get("commit"),
    "git_dirty": lambda machine: (machine.get("git") or {}).get("dirty"),
}
# Stated by another name, and meant to differ.
_LEFT_OUT = ("goal", "seed")
# Every run has these, so None means that they are not known.
_KNOWN_OR_NOT = (names.DATA, names.DATA_CHECKSUM, names.BATCH_SIZE)


def facts_of(
    run: Run, result: Result, machines: Sequence[Machine], cores: Sequence[Sequence[int]] = ()
) -> dict[str, str]:
    """Return the facts of a run by name.

    Args:
        run: the run.
        result: its result, with the target that it was evaluated by.
        machines: the machines of its ranks, as far as they are known.
        cores: the cores of one machine that each rank was bound to; empty if it was to none.
    """
    settings = _settings(run)
    known = {
        names.GOAL: _goal(result.target),
        names.DATA: settings.get(names.DATA, settings.get("dataset")),
        names.NUM_WORKERS: run.num_workers,
        names.PROCESSES: f"{run.world_size / run.num_workers:g}",
        names.NUM_CPUS: _ANY if run.num_cpus is None else f"{run.num_cpus:g}",
        names.MAX_BANDWIDTH: _ANY if run.max_bandwidth is None else f"{run.max_bandwidth:g}",
        names.LATENCY: _NONE if run.latency_ms is None else f"{run.latency_ms:g}",
        names.LOSS: _NONE if run.loss_percent is None else f"{run.loss_percent:g}",
        names.BENCHMARK: run.benchmark or _NONE,
        names.IMAGE: run.image or _NONE,
        names.COMMAND: " ".join([run.command, *run.command_flags]) if run.command else _NONE,
        names.WORKING_DIR: run.working_dir or _NONE,
        "origin": run.origin["installation"] or _ELSEWHERE if run.origin else _HERE,
        "division": result.division,
        names.SEED: run.seed,
        names.OWN_GOAL: _goal(Goal(**run.goal)) if run.goal else None,
        "deadline_seconds": _NONE if run.deadline_seconds is None else run.deadline_seconds,
        # Keeping checkpoints takes time.
        "max_restarts": run.max_restarts,
        "backend": run.backend,
        "run_all_nodes": run.run_all_nodes,
        "oversubscribed": _oversubscribed(cores),
        **{name: _common(map(get, machines)) for name, get in _OF_MACHINES.items()},
        **_of_processors(machines),
    }
    settings = {name: to_text(one) for name, one in settings.items() if known.get(name) is None}
    return {name: to_text(one) for name, one in (known | settings).items() if one is not None}


def _of_processors(machines: Sequence[Machine]) -> dict[str, str | None]:
    """Return what is known of the processors beside their model, such as ``cpu_caches``."""
    stated = [machine.get("processor") or {} for machine in machines]
    known = dict.fromkeys(name for one in stated for name in one)
    return {f"{names.CPU_FACT}{name}": _common(one.get(name) for one in stated) for name in known}


def _settings(run: Run) -> dict[str, Any]:
    """Return the settings that the task stated; before it has, those of the order."""
    told = {name.replace("-", "_"): value for name, value in run.args.items()}
    stated = told | (run.settings or {})
    return {
        name: _NONE if value is None else value
        for name, value in stated.items()
        if name not in _LEFT_OUT and not (value is None and name in _KNOWN_OR_NOT)
    }


def _oversubscribed(cores: Sequence[Sequence[int]]) -> str | None:
    """Return whether ranks share cores; None where they are bound to none."""
    if not any(cores):
        return None
    distinct = len({core for of_rank in cores for core in of_rank})
    shares = distinct < sum(map(len, cores))
    return f"{len(cores)} workers on {distinct} cores" if shares else "no"


def _goal(target: Goal | None) -> str | None:
    if target is None:
        return None
    return f"{target.metric} {'<=' if target.lower_is_better else '>='} {spell(target.value)}"


def _common(stated: Iterable[Any]) -> str | None:
    """Return the distinct values that machines state; None if none states any."""
    known = [one for one in stated if one is not None]
    things = {
        to_text(thing) for one in known for thing in (one if isinstance(one, list) else [one])
    }
    return ("; ".join(sorted(things)) or _NONE) if known else None


def to_text(value: Any) -> str:
    """Write a value as on the command line; the batch size 128.0 is 128."""
    match value:
        case None:
            return _NONE
        case str():
            return value
        case float():
            return spell(value)
        case _:
            return json.dumps(value)
