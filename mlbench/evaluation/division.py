"""The division of a run, and its violations of the rules of the closed division."""

from collections.abc import Sequence

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.records import Division, Machine
from mlbench.contract.runspec import IMPAIRMENTS, options_of
from mlbench.evaluation.inputs import RunRow
from mlbench.evaluation.run_attributes import to_text

# Kernels round limits.
_TOLERANCE = 1.01
# Options that tasks had not at first: a run that does not state one had no choice.
_LATER = {"recipe"}
# What a setting means that does not say so by its name.
_MEANS = {"data_sha256": "the data is not the standard data: "}


def division(run: RunRow) -> Division:
    """Return the division: closed for an official task, open for a user's own command."""
    return "closed" if run.benchmark else "open"


def rule_violations(run: RunRow, machines: Sequence[Machine]) -> list[str]:
    """Return a sentence for each violation of the task's rules; the open division has none.

    While a run is active, settings that it has not stated yet are no violation.
    """
    if not run.benchmark:
        return []
    changed = any(machine.git and machine.git.dirty for machine in machines)
    of_code = ["the code that ran has changes that are not committed"] if changed else []
    return [*_of_settings(run), *of_code, *_of_limits(run, machines), *_of_faults(run)]


def _of_faults(run: RunRow) -> list[str]:
    by_hand = sum(one.seconds is None and one.at is not None for one in run.injected)
    ordered = [f"failures were ordered: {run.faults}"] if run.faults else []
    return [*ordered, *([f"failures were injected by hand: {by_hand}"] if by_hand else [])]


def _of_settings(run: RunRow) -> list[str]:
    broken = BENCHMARKS[run.benchmark].broken_rules(run.settings or {})
    if run.settings is None:
        ended = run.state not in ACTIVE_STATES
        return ["the run has not stated its settings"] if ended and broken else []
    settings = {name: f"is {to_text(value)}" for name, value in run.settings.items()}
    return [
        f"{_MEANS.get(name, '')}{name} {settings.get(name, 'is not stated')}; the task's rules say "
        + " or ".join(map(to_text, permitted))
        for name, permitted in broken.items()
        if name in settings or name not in _LATER
    ]


def _of_limits(run: RunRow, machines: Sequence[Machine]) -> list[str]:
    """Return which of the ordered limits are not in force on every machine.

    A machine without a CPU limit may be bound to fewer cores, which only its rank knows.
    """
    bandwidths = [machine.bandwidth_limit for machine in machines]
    cores = [machine.cpu_limit for machine in machines if machine.cpu_limit is not None]
    problems = _exceeding("the bandwidth of workers", run.max_bandwidth, bandwidths, "Mbit/s")
    for name in IMPAIRMENTS:
        unit, ordered = options_of(RunRow)[name].unit_in_words, getattr(run, name) or 0.0
        in_force = {getattr(machine, name) or 0.0 for machine in machines}
        less = sorted(more for more in in_force if more * _TOLERANCE < ordered)
        problems += [f"what workers sent was not {ordered:g} {unit}, but {real:g}" for real in less]
    return [*problems, *_exceeding("the time of workers", run.num_cpus, cores, "cores")]


def _exceeding(
    what: str, ordered: float | None, in_force: Sequence[float | None], unit: str
) -> list[str]:
    if ordered is None:
        return []
    weaker = {limit or 0.0 for limit in in_force if limit is None or limit > ordered * _TOLERANCE}
    text = f"{what} was not limited to {ordered:g} {unit}"
    return [f"{text}, but to {limit:g}" if limit else text for limit in sorted(weaker)]
