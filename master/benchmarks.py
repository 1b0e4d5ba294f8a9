"""The official benchmarks: what `benchmark` of a run may name."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """A task that every worker can run, as a Python module."""

    name: str
    module: str
    description: str


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "digits",
            "worker.tasks.digits",
            "A small ResNet on scikit-learn's handwritten digits, to 97 % validation accuracy.",
        ),
        Benchmark(
            "steps",
            "worker.tasks.steps",
            "No training: logs steps at a steady rate, to check the recording chain.",
        ),
    )
}


def command(benchmark: Benchmark, args: dict[str, str]) -> list[str]:
    """Return the command that trains: the module, with each argument as ``--key value``."""
    options = [part for key, value in args.items() for part in (f"--{key}", value)]
    return [sys.executable, "-m", benchmark.module, *options]
