"""The operations on benchmarks."""

from master.openapi.operation import Answer, Operation, View
from master.openapi.runs import Goal
from master.resources.benchmarks import BenchmarksResource
from mlbench.run_settings import Setting


class Benchmark(View):
    """An official task."""

    name: str
    """What ``benchmark`` of a run may be."""
    description: str
    goal: Goal | None
    """What it trains for if nothing else is said; None for a task without a goal."""
    light_goal: Goal | None
    """What it trains for with `light_target`; None where that has no meaning."""
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
                    "goal": None,
                    "light_goal": None,
                    "has_light_target": False,
                    "takes_seed": False,
                    "takes_gpu": True,
                    "backends": ["gloo", "nccl", "mpi"],
                    "rules": {"seconds": [0.5], "check": [True]},
                    "images": ["mlbench/pytorch-backend-benchmark"],
                },
                {
                    "name": "digits-linear",
                    "description": "Multinomial logistic regression on handwritten digits, …",
                    "goal": {
                        "metric": "val_global_Prec@1",
                        "value": 93.0,
                        "lower_is_better": False,
                    },
                    "light_goal": {
                        "metric": "val_global_Prec@1",
                        "value": 85.0,
                        "lower_is_better": False,
                    },
                    "has_light_target": True,
                    "takes_seed": True,
                    "takes_gpu": False,
                    "backends": ["gloo", "mpi"],
                    "rules": {"goal": [93.0, 85.0]},
                    "images": [],
                },
            ],
        ),
    ),
)
