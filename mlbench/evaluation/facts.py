"""The facts of a run in which another one may differ: its order, settings and machines."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mlbench.contract.records import Goal, Machine
from mlbench.contract.results import Result
from mlbench.contract.runspec import SWEPT
from mlbench.contract.series import spell
from mlbench.evaluation import run_attributes as names
from mlbench.evaluation.inputs import RankRow, RunRow

_NONE = "none"
_HERE, _ELSEWHERE = "here", "elsewhere"

_OF_MACHINES: Mapping[str, Callable[[Machine], Any]] = {
    "cpu": lambda machine: machine.cpu_model,
    "cpus": lambda machine: machine.cpus,
    "cpu_limit": lambda machine: machine.cpu_limit,
    "memory_limit": lambda machine: machine.memory_limit_bytes,
    "gpus": lambda machine: machine.gpus,
    "gpu_driver": lambda machine: machine.gpu_driver,
    "os": lambda machine: machine.os,
    "python": lambda machine: machine.python,
    "torch": lambda machine: machine.packages.get("torch"),
    "numpy": lambda machine: machine.packages.get("numpy"),
    "jax": lambda machine: machine.packages.get("jax"),
    "tensorflow": lambda machine: machine.packages.get("tensorflow"),
    "mlbench": lambda machine: machine.mlbench,
    "git_commit": lambda machine: machine.git and machine.git.commit,
    "git_dirty": lambda machine: machine.git and machine.git.dirty,
}
# Stated by another name, and meant to differ.
_LEFT_OUT = ("goal", "seed")
# Every run has these, so None means that they are not known.
_KNOWN_OR_NOT = (names.DATA, names.DATA_CHECKSUM, names.BATCH_SIZE)


def facts_of(run: RunRow, ranks: Sequence[RankRow], result: Result) -> dict[str, str]:
    """Return the facts of a run by name, given the ranks of its latest attempt, and its result."""
    machines = [rank.machine for rank in ranks if rank.machine]
    settings = _settings(run)
    facts = {
        names.GOAL: _goal(result.target),
        names.DATA: settings.get(names.DATA, settings.get("dataset")),
        names.NUM_WORKERS: run.num_workers,
        names.PROCESSES: f"{run.world_size / run.num_workers:g}",
        **{
            name: option.unasked
            if (value := getattr(run, name)) is None
            else f"{value:g}"
            if option.is_number
            else value
            for name, option in SWEPT.values()
        },
        names.BENCHMARK: run.benchmark or _NONE,
        names.IMAGE: run.image or _NONE,
        names.COMMAND: run.whole_command or _NONE,
        names.WORKING_DIR: run.working_dir or _NONE,
        names.ORIGIN: run.origin.installation or _ELSEWHERE if run.origin else _HERE,
        "division": result.division,
        names.SEED: run.seed,
        names.OWN_GOAL: _goal(run.goal),
        "deadline_seconds": _NONE if run.deadline_seconds is None else run.deadline_seconds,
        # Keeping checkpoints takes time.
        "max_restarts": run.max_restarts,
        "backend": run.backend,
        "run_all_nodes": run.run_all_nodes,
        "oversubscribed": _oversubscribed([rank.cores for rank in ranks]),
        **{name: _common(map(get, machines)) for name, get in _OF_MACHINES.items()},
        **_of_processors(machines),
    }
    settings = {name: to_text(fact) for name, fact in settings.items() if facts.get(name) is None}
    return {name: to_text(fact) for name, fact in (facts | settings).items() if fact is not None}


def _of_processors(machines: Sequence[Machine]) -> dict[str, str | None]:
    """Return what is known of the processors beside their model, such as ``cpu_caches``."""
    stated = [machine.processor for machine in machines]
    known = dict.fromkeys(name for one in stated for name in one)
    return {f"{names.CPU_FACT}{name}": _common(one.get(name) for one in stated) for name in known}


def _settings(run: RunRow) -> dict[str, Any]:
    """Return the settings that the task stated; before it has, those of the order."""
    ordered = {name.replace("-", "_"): value for name, value in run.args.items()}
    return {
        name: _NONE if value is None else value
        for name, value in {**ordered, **(run.settings or {})}.items()
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
    known = [one if isinstance(one, tuple) else (one,) for one in stated if one is not None]
    things = {to_text(thing) for one in known for thing in one}
    return ("; ".join(sorted(things)) or _NONE) if known else None


def to_text(value: Any) -> str:
    """Write a value as on the command line; the batch size 128.0 is 128."""
    match value:
        case None:
            return _NONE
        case str() | float():
            return spell(value)
        case _:
            return json.dumps(value)
