"""The official benchmarks: what `benchmark` of a run may name."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Benchmark:
    """A task that every worker can run, as a Python module."""

    name: str
    module: str
    description: str
    light_args: Mapping[str, str] = field(default_factory=dict)
    """What makes its goal the light one; empty for a task that has none."""
    seeded: bool = False
    """Whether it takes a seed."""


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "digits",
            "worker.tasks.digits",
            "A small ResNet on scikit-learn's handwritten digits, to 97 % validation accuracy "
            "(light: 90 %).",
            light_args={"goal": "90"},
            seeded=True,
        ),
        Benchmark(
            "steps",
            "worker.tasks.steps",
            "No training: logs steps at a steady rate, to check the recording chain.",
        ),
    )
}

# What runs where nothing is said.
DEFAULT = BENCHMARKS["digits"]
