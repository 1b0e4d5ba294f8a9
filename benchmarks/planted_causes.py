"""Findings of runs with a planted cause: whether it comes first, and the error of its saving.

Each cause has a run with it, and one in which its remedy was applied.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.interference import hog
from benchmarks.measure import Figure
from benchmarks.stacks import local_stack, wait_for_end
from mlbench import ApiClient
from mlbench.contract.names import THIS_MACHINE
from mlbench.contract.results import Result

_SCRIPT = Path(__file__).with_name("planted_training.py")


@dataclass(frozen=True)
class Cause:
    """A cause of a slow run: settings of ``planted_training`` with it, and without it."""

    rule: str
    settings: Mapping[str, object]
    remedied: Mapping[str, object] = field(default_factory=dict)
    bandwidth: float | None = None
    """Maximum bandwidth of the slow run, in Mbit/s."""
    is_hogged: bool = False
    """Whether another program uses a core of the slow run."""
    restarts: int = 0
    clock: str = "training_seconds"
    """Duration that the cause prolongs."""


_CAUSES = (
    Cause("data", {"data": 30}),
    Cause("straggler", {"late": 60}),
    Cause("communication", {"values": 100_000}, {"values": 100_000}, bandwidth=50),
    Cause(
        "communication",  # a small batch
        {"steps": 3000, "work": 0.2, "values": 30_000, "spins": 1},
        {"steps": 1500, "work": 0.4, "values": 30_000, "spins": 1, "samples": 32},
    ),
    Cause("contention", {"spins": 1}, {"spins": 1}, is_hogged=True),
    Cause("threads", {"threads": 4, "steps": 150}, {"steps": 150}),
    Cause(
        "evaluation",
        {"evaluate": 60},
        {"evaluate": 60, "evaluate_every": 6},
        clock="wall_seconds",
    ),
    Cause("checkpoints", {"save": 60}, {"save": 60, "save_every": 16}, clock="wall_seconds"),
    Cause("restarts", {"dies_at": 150}, restarts=1, clock="wall_seconds"),
    Cause("nan", {"steps": 600, "nan_from": 300}, {"steps": 300}, clock="wall_seconds"),
)


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the errors of the predicted durations, and the findings of the remedied runs."""
    errors, first, findings = [], 0, 0
    with local_stack(folder) as (_, client):
        for cause in _CAUSES:
            with hog(folder) if cause.is_hogged else nullcontext():
                slow = _run(client, cause, cause.settings, cause.bandwidth)
            remedied = _run(client, cause, cause.remedied)
            rules = [finding.rule for finding in slow.findings]
            first += rules[:1] == [cause.rule]
            remaining = [finding.rule for finding in remedied.findings]
            findings += len(remaining)
            finding = next((f for f in slow.findings if f.rule == cause.rule), None)
            text = "no saving predicted"
            if finding and finding.saving:
                before, after = getattr(slow, cause.clock), getattr(remedied, cause.clock)
                errors.append(100 * ((before - finding.saving.seconds) / after - 1))
                text = (
                    f"{before:.1f} s, {before - finding.saving.seconds:.1f} s predicted, "
                    f"{after:.1f} s measured: {errors[-1]:+.1f} %"
                )
            print(f"  {cause.rule}: found {rules}, {text}; remedied: {remaining}", flush=True)
    yield Figure(f"planted causes that are found first, of {len(_CAUSES)}", "", [first])
    yield Figure("findings of the remedied runs", "", [findings])
    yield Figure("error of the predicted duration, absolute", "%", [abs(e) for e in errors])


def _run(
    client: ApiClient, cause: Cause, settings: Mapping[str, object], bandwidth: float | None = None
) -> Result:
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    order = client.create_run(
        f"planted-{cause.rule}",
        2,
        num_cpus=1,
        max_bandwidth=bandwidth,
        custom_image_name=THIS_MACHINE,
        custom_image_command=f"{sys.executable} {_SCRIPT} {words}",
        max_restarts=cause.restarts,
    )
    run = wait_for_end(client, order.result().value, look_seconds=1.0)
    return client.get_result(run.id).result().value
