"""The operations on benchmarks."""

from master.openapi.operation import Answer, Operation, View
from master.resources.benchmarks import BenchmarksResource


class Benchmark(View):
    """An official task."""

    name: str
    """What ``benchmark`` of a run may be."""
    description: str
    has_light_target: bool
    """Whether a run may ask for a goal that is reached sooner, with ``light_target``."""
    takes_seed: bool
    """Whether a run may say ``seed``."""


OPERATIONS = (
    Operation(
        BenchmarksResource,
        "get",
        "/api/benchmarks/",
        name="list_benchmarks",
        answer=Answer(
            "All official tasks.",
            list[Benchmark],
            [
                {
                    "name": "steps",
                    "description": "No training: logs steps at a steady rate.",
                    "has_light_target": False,
                    "takes_seed": False,
                }
            ],
        ),
    ),
)
