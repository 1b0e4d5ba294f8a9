"""In which facts runs differ, and whether that keeps them from being compared.

A fact is a name with a value, both texts; what a run does not state is not among its facts. Its
shape always is: workers, and the cores and bandwidth of each.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from mlbench.results import Difference, Value

Facts = Mapping[str, str]

Answer = Literal["yes", "no", "unknown"]

GOAL, OWN_GOAL = "goal", "own_goal"
DATA, DATA_CHECKSUM = "data", "data_sha256"
BATCH_SIZE, WORKER_BATCH_SIZE = "batch_size", "worker_batch_size"
NUM_WORKERS, NUM_CPUS, MAX_BANDWIDTH = "num_workers", "num_cpus", "max_bandwidth"
BENCHMARK, IMAGE, COMMAND = "benchmark", "image", "command"
WORKING_DIR = "working_dir"

# Runs that differ in one of these cannot be compared.
_BREAKING = (GOAL, DATA, BATCH_SIZE)
# Runs of the same, of which none states its data, have no other than each other's.
_CODE = (BENCHMARK, IMAGE, COMMAND, WORKING_DIR)
# What one varies to compare runs.
SHAPE = (NUM_WORKERS, NUM_CPUS, MAX_BANDWIDTH)

_NOT_STATED = "not stated"


def alike(facts: Mapping[int, Facts]) -> dict[int, dict[str, str]]:
    """Return the facts of runs, each said once, in a way that all of them say it.

    Data is told by its checksum, or by its name where one run has no checksum. The batch size is
    that of a worker where all have the same one: their task fixes that, and the whole grows with
    the workers. The goal that a run had itself is told where some are judged by another one.
    """
    runs = facts.values()
    by_own_goals = all(of_run.get(OWN_GOAL) == of_run.get(GOAL) for of_run in runs)
    by_worker = _all_state(facts, WORKER_BATCH_SIZE) and not _differ(facts, WORKER_BATCH_SIZE)
    told_by = {
        DATA: DATA_CHECKSUM if _all_state(facts, DATA_CHECKSUM) else DATA,
        BATCH_SIZE: WORKER_BATCH_SIZE if by_worker else BATCH_SIZE,
    }
    spare = {*told_by, DATA_CHECKSUM, WORKER_BATCH_SIZE, *([OWN_GOAL] if by_own_goals else ())}
    found = {}
    for run_id, of_run in facts.items():
        others = {name: value for name, value in of_run.items() if name not in spare}
        told = {name: of_run[source] for name, source in told_by.items() if source in of_run}
        found[run_id] = others | told
    return found


def find(facts: Mapping[int, Facts]) -> tuple[Difference, ...]:
    """Return the differences between runs, those that break comparability first."""
    same_code = not any(_differ(facts, name) for name in _CODE)
    names = dict.fromkeys(name for of_run in facts.values() for name in of_run)
    found = [_breaking(facts, name, same_code) for name in _BREAKING]
    found.sort(key=lambda one: one is not None and one.breaks == "unknown")
    others = [
        _describe(facts, name, "no")
        for name in names
        if name not in (*_BREAKING, *SHAPE) and _differ(facts, name)
    ]
    return (*(one for one in found if one is not None), *others)


def are_comparable(differences: Sequence[Difference]) -> Answer:
    """Return whether runs with these differences can be compared."""
    breaks = {one.breaks for one in differences}
    if "yes" in breaks:
        return "no"
    return "unknown" if "unknown" in breaks else "yes"


def _breaking(facts: Mapping[int, Facts], name: str, same_code: bool) -> Difference | None:
    stating = [name in of_run for of_run in facts.values()]
    if _differ(facts, name):
        return _describe(facts, name, "yes")
    if all(stating) or (same_code and not any(stating)):
        return None
    return _describe(facts, name, "unknown")


def _all_state(facts: Mapping[int, Facts], name: str) -> bool:
    return all(name in of_run for of_run in facts.values())


def _differ(facts: Mapping[int, Facts], name: str) -> bool:
    return len({of_run[name] for of_run in facts.values() if name in of_run}) > 1


def _describe(facts: Mapping[int, Facts], name: str, breaks: Answer) -> Difference:
    by_value: dict[str, list[int]] = {}
    for run_id, of_run in facts.items():
        by_value.setdefault(of_run.get(name, _NOT_STATED), []).append(run_id)
    values = tuple(Value(value, tuple(run_ids)) for value, run_ids in by_value.items())
    told = " and ".join(f"{one.value} in {_runs(one.run_ids)}" for one in values)
    consequence = {
        "yes": ": they cannot be compared",
        "unknown": ": whether they can be compared is not known",
        "no": "",
    }
    return Difference(name, breaks, values, f"{name} is {told}{consequence[breaks]}")


def _runs(run_ids: Sequence[int]) -> str:
    plural = "runs" if len(run_ids) > 1 else "run"
    return f"{plural} {', '.join(map(str, run_ids))}"
