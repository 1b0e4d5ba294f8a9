"""Attributes of runs, their differences, and the effect of these on a comparison.

An attribute has a name and a value, both strings. A run lacks an attribute that it does not report.
Workers, cores and bandwidth, its shape, are always known.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from mlbench.contract.command_settings import is_seed, read_command
from mlbench.contract.comparisons import Breaks, Difference, Value
from mlbench.contract.humanize import numbered
from mlbench.contract.records import Machine, Target
from mlbench.contract.results import Result
from mlbench.contract.runspec import SWEPT
from mlbench.contract.series import format_value
from mlbench.evaluation.inputs import RankRow, RunRow

# --- Differences between runs ---

Facts = Mapping[str, str]

Answer = Literal["yes", "no", "unknown"]

TARGET, OWN_TARGET = "target", "own_target"
DATA, DATA_CHECKSUM = "data", "data_sha256"
BATCH_SIZE, WORKER_BATCH_SIZE = "batch_size", "worker_batch_size"
NUM_WORKERS, NUM_CPUS = "num_workers", "num_cpus"
PROCESSES = "processes_per_worker"
BENCHMARK, IMAGE, COMMAND = "benchmark", "image", "command"
CODE, GIT_COMMIT = "code", "git_commit"
WORKING_DIR = "working_dir"
ORIGIN = "origin"
SEED = "seed"
CPU_FACT = "cpu_"
"""Prefix of the attributes of a processor other than its model."""

# Runs that differ in one of these attributes are not comparable.
_BREAKING = (TARGET, DATA, BATCH_SIZE)
# Runs of the same program and no reported data have the same data.
_PROGRAM = (BENCHMARK, IMAGE, COMMAND, WORKING_DIR)
_LIMITS = tuple(name for name, _ in SWEPT.values())
# Users vary these attributes in order to compare.
SHAPE = (NUM_WORKERS, *_LIMITS)
# A swept number of cores changes these attributes, too.
_OF_CORES = {"cpu_limit", "threads", "oversubscribed"}
# Options that choose the data have other names than the attribute.
_DATA_OPTIONS = {"data", "dataset"}
# These are the resources of a worker. Scaling compares workers with the same resources.
_RESOURCES = (
    *("cpus", "cpu_limit", "memory_limit", "threads", "device", "oversubscribed"),
    *(*_LIMITS, PROCESSES),
)
# These attributes of a run's environment and its limits do not affect learning. All others are
# settings of its task, which may.
_NOT_LEARNED = frozenset(
    {
        *_PROGRAM,
        *SHAPE,
        *_RESOURCES,
        *("cpu", "gpus", "gpu_driver", "device_name", "channels_last", "compile"),
        *("os", "python", "torch", "numpy", "jax", "tensorflow", "blas"),
        *("mlbench", GIT_COMMIT, "git_dirty"),
        *(ORIGIN, "division", "own_target"),
        *("deadline_seconds", "max_restarts", "backend", "run_all_nodes"),
    }
)


def normalize(facts: Mapping[int, Facts]) -> dict[int, dict[str, str]]:
    """Reduce attributes to those by which all runs can be compared, each reported once.

    Data is its checksum, or its name if a run has no checksum. The batch size is that of a worker
    if all have the same: their task fixes it, and the total grows with the workers. A run's own
    target counts only if some runs are evaluated by another one.
    """
    by_own_targets = all(of_run.get(OWN_TARGET) == of_run.get(TARGET) for of_run in facts.values())
    by_worker = _all_state(facts, WORKER_BATCH_SIZE) and not _differ(facts, WORKER_BATCH_SIZE)
    sources = {
        DATA: DATA_CHECKSUM if _all_state(facts, DATA_CHECKSUM) else DATA,
        BATCH_SIZE: WORKER_BATCH_SIZE if by_worker else BATCH_SIZE,
    }
    replaced = {*sources, SEED, DATA_CHECKSUM, WORKER_BATCH_SIZE}
    if by_own_targets:
        replaced.add(OWN_TARGET)
    normalized = {}
    for run_id, of_run in facts.items():
        others = {name: value for name, value in of_run.items() if name not in replaced}
        chosen = {name: of_run[source] for name, source in sources.items() if source in of_run}
        normalized[run_id] = others | chosen
    return normalized


def find_differences(
    facts: Mapping[int, Facts], swept: Sequence[str] = ()
) -> tuple[Difference, ...]:
    """Return the differences between runs; those that break comparability come first.

    A swept option is not a difference, because its effect is what the sweep measures.
    """
    in_sweep = {swept_attribute(key) for key in swept}
    in_sweep |= {DATA} if in_sweep & _DATA_OPTIONS else set()
    in_sweep |= _OF_CORES if NUM_CPUS in in_sweep else set()
    intended = (*SHAPE, *in_sweep)
    same_program = not any(_differ(facts, name) for name in _PROGRAM)
    names = dict.fromkeys(name for of_run in facts.values() for name in of_run)
    certain, uncertain = [], []
    for name in _BREAKING:
        if name in in_sweep:
            continue
        is_stated = [name in of_run for of_run in facts.values()]
        if _differ(facts, name):
            certain.append(_describe(facts, name, "yes"))
        elif not all(is_stated) and (any(is_stated) or not same_program):
            uncertain.append(_describe(facts, name, "unknown"))
    unequal = []
    for name in _RESOURCES:
        by_workers: dict[str, set[str]] = {}
        for of_run in facts.values():
            if name in of_run:
                by_workers.setdefault(of_run[NUM_WORKERS], set()).add(of_run[name])
        # An unfinished sweep has other values on some numbers of workers.
        if name not in in_sweep and len({frozenset(values) for values in by_workers.values()}) > 1:
            unequal.append(name)
    differing = [
        name
        for name in names
        if name not in (*_BREAKING, *intended, *unequal) and _differ(facts, name)
    ]
    scaling = [_describe(facts, name, "scaling") for name in unequal]
    learning = [_describe(facts, name, "learning") for name in differing if is_learned(name)]
    others = [_describe(facts, name, "no") for name in differing if not is_learned(name)]
    return (*certain, *uncertain, *scaling, *learning, *others)


def swept_attribute(key: str) -> str:
    """Return the attribute that a swept option sets."""
    return SWEPT[key][0] if key in SWEPT else key.replace("-", "_")


def is_learned(name: str) -> bool:
    """Check if an attribute may affect learning."""
    return name not in _NOT_LEARNED and not name.startswith(CPU_FACT)


def are_comparable(differences: Sequence[Difference]) -> Answer:
    """Return whether runs with these differences can be compared."""
    breaks = {difference.breaks for difference in differences}
    if "yes" in breaks:
        return "no"
    return "unknown" if "unknown" in breaks else "yes"


def _all_state(facts: Mapping[int, Facts], name: str) -> bool:
    return all(name in of_run for of_run in facts.values())


def _differ(facts: Mapping[int, Facts], name: str) -> bool:
    return len({of_run[name] for of_run in facts.values() if name in of_run}) > 1


def _describe(facts: Mapping[int, Facts], name: str, breaks: Breaks) -> Difference:
    by_value: dict[str, list[int]] = {}
    for run_id, of_run in facts.items():
        by_value.setdefault(of_run.get(name, "not stated"), []).append(run_id)
    values = tuple(Value(value, tuple(run_ids)) for value, run_ids in by_value.items())
    # The ids of more than 12 runs would make the sentence unreadable.
    texts = [
        f"{value} in {numbered('run', ids) if len(ids) <= 12 else f'{len(ids)} runs'}"
        for value, ids in by_value.items()
    ]
    consequence = {
        "yes": ": they cannot be compared",
        "unknown": ": whether they can be compared is not known",
        "scaling": ": speed-up and efficiency are not those of the number of workers",
    }
    text = f"{name} is {' and '.join(texts)}{consequence.get(breaks, '')}"
    return Difference(name, breaks, values, text)


# --- Attributes of a run ---

_NONE = "none"

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
    GIT_COMMIT: lambda machine: machine.git and machine.git.commit,
    "git_dirty": lambda machine: machine.git and machine.git.dirty,
    CODE: lambda machine: machine.code,
}


def attributes_of(run: RunRow, ranks: Sequence[RankRow], result: Result) -> dict[str, str]:
    """Return the attributes of a run, given the ranks of its latest attempt, and its result."""
    machines = [rank.machine for rank in ranks if rank.machine]
    processors = [machine.processor for machine in machines]
    # Reported settings replace the settings of the command line and of the run's request.
    line = read_command(run.whole_command)
    requested = {name.replace("-", "_"): value for name, value in run.args.items()}
    reported: dict[str, Any] = {**(run.settings or {})}
    settings: dict[str, Any] = {}
    # Reported settings come first, so that they name groups.
    known_settings = {**reported, **line.settings, **requested, **reported}
    for name, value in known_settings.items():
        # Every run has data and a batch size, so None means that they are unknown.
        is_unknown = value is None and name in (DATA, DATA_CHECKSUM, BATCH_SIZE)
        # The target has another name here, and seeds are meant to differ.
        if name != "goal" and not is_seed(name) and not is_unknown:
            settings[name] = _NONE if value is None else value
    oversubscribed = None  # Ranks are not bound to cores.
    cores = [core for rank in ranks for core in rank.cores]
    if cores:
        shares = len(set(cores)) < len(cores)
        text = f"{len(ranks)} workers on {len(set(cores))} cores"
        oversubscribed = text if shares else "no"
    facts = {
        TARGET: _target(result.target),
        DATA: settings.get(DATA, settings.get("dataset")),
        NUM_WORKERS: run.num_workers,
        PROCESSES: f"{run.world_size / run.num_workers:g}",
        **{
            name: option.unasked
            if (value := getattr(run, name)) is None
            else f"{value:g}"
            if option.is_number
            else value
            for name, option in SWEPT.values()
        },
        BENCHMARK: run.benchmark or _NONE,
        IMAGE: run.image or _NONE,
        COMMAND: line.pattern or _NONE,
        WORKING_DIR: run.working_dir or _NONE,
        ORIGIN: run.origin.installation or "elsewhere" if run.origin else "here",
        "division": result.division,
        SEED: run.seed,
        OWN_TARGET: _target(run.target),
        "deadline_seconds": _NONE if run.deadline_seconds is None else run.deadline_seconds,
        # Keeping checkpoints takes time.
        "max_restarts": run.max_restarts,
        "backend": run.backend,
        "run_all_nodes": run.run_all_nodes,
        "oversubscribed": oversubscribed,
        **{name: _common(map(get, machines)) for name, get in _OF_MACHINES.items()},
        **{
            f"{CPU_FACT}{name}": _common(processor.get(name) for processor in processors)
            for name in dict.fromkeys(name for processor in processors for name in processor)
        },
    }
    for name in line.settings.keys() & facts.keys() - {DATA}:
        if facts[name] is not None:  # another fact has the name
            settings[f"--{name}"] = line.settings[name]
    settings = {name: to_text(fact) for name, fact in settings.items() if facts.get(name) is None}
    return {name: to_text(fact) for name, fact in (facts | settings).items() if fact is not None}


def _target(target: Target | None) -> str | None:
    if target is None:
        return None
    return (
        f"{target.metric} {'<=' if target.lower_is_better else '>='} {format_value(target.value)}"
    )


def _common(values: Iterable[Any]) -> str | None:
    """Return the distinct values that machines report; None if none reports any."""
    reported = [
        value if isinstance(value, tuple) else (value,) for value in values if value is not None
    ]
    texts = {to_text(item) for value in reported for item in value}
    return ("; ".join(sorted(texts)) or _NONE) if reported else None


def to_text(value: Any) -> str:
    """Format a value as on the command line; the batch size 128.0 is 128."""
    match value:
        case None:
            return _NONE
        case str() | float():
            return format_value(value)
        case _:
            return json.dumps(value)
