"""The operations on benchmarks."""

from master.openapi.operation import Answer, Operation, View
from master.resources.benchmarks import BenchmarksResource
from mlbench.run_settings import Setting


class Benchmark(View):
    """An official task."""

    name: str
    """What ``benchmark`` of a run may be."""
    description: str
    has_light_target: bool
    """Whether a run may ask for a goal that is reached sooner, with ``light_target``."""
    takes_seed: bool
    """Whether a run may say ``seed``."""
    takes_gpu: bool
    """Whether a run may say ``gpu_enabled``."""
    backends: list[str]
    """What a run's ``backend`` may be; empty where its ranks do not communicate."""
    rules: dict[str, list[Setting]]
    """The values that its settings may have in the closed division, the usual one first."""
    images: list[str]
    """MLBench's images of it: what a run's ``image_name`` may be too, with any tag."""


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
                    "name": "communication",
                    "description": "No training: latency and bandwidth of all-reduce, …",
                    "has_light_target": False,
                    "takes_seed": False,
                    "takes_gpu": True,
                    "backends": ["gloo", "nccl", "mpi"],
                    "rules": {"seconds": [0.5], "check": [True]},
                    "images": ["mlbench/pytorch-backend-benchmark"],
                }
            ],
        ),
    ),
)
