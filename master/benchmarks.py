"""The official benchmarks: what `benchmark` of a run may name, and MLBench's own images of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from master import rules
from master.rules import Rules
from mlbench.names import VAL_ACCURACY
from mlbench.records import Goal

# As PyTorch names them. A task finds out by itself whether its PyTorch has a backend.
_TORCH_BACKENDS = ("gloo", "nccl", "mpi")


@dataclass(frozen=True)
class Benchmark:
    """A task that every worker can run, as a Python module."""

    name: str
    module: str
    description: str
    args: Mapping[str, str] = field(default_factory=dict)
    """What makes the module this benchmark, where it holds several."""
    light_args: Mapping[str, str] = field(default_factory=dict)
    """What makes its goal the light one; empty for a task that has none."""
    seeded: bool = False
    """Whether it takes a seed."""
    backends: tuple[str, ...] = ()
    """What its ``--backend`` may be here; empty for a task that does not communicate."""
    rules: Rules = field(default_factory=dict)
    """The values that its settings may have in the closed division, the usual one first."""

    @property
    def goal(self) -> Goal | None:
        """What it trains for if nothing else is said; None for a task without a goal."""
        usual, *_ = self.rules.get("goal", (None,))
        return None if usual is None else _accuracy(float(usual))

    @property
    def light_goal(self) -> Goal | None:
        """What it trains for with ``light_target``; None for a task that has no such goal."""
        light = self.light_args.get("goal")
        return None if light is None else _accuracy(float(light))

    @property
    def on_gpu(self) -> bool:
        """Whether it takes ``--device cuda``: what talks over nccl lies on GPUs."""
        return "nccl" in self.backends


def _accuracy(percent: float) -> Goal:
    """Return the goal that all tasks share which have one."""
    return Goal(VAL_ACCURACY, percent, lower_is_better=False)


@dataclass(frozen=True)
class Image:
    """An image that MLBench published: which benchmark is meant, and what it said otherwise."""

    benchmark: str
    args: Mapping[str, str] = field(default_factory=dict)


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "cifar10-resnet",
            "worker.tasks.cifar10",
            "Image classification: a ResNet (v1 or v2, 20 to 56 layers) on CIFAR-10, to 80 % "
            "validation accuracy (light: 70 %).",
            light_args={"goal": "70"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.CIFAR10_RESNET,
        ),
        Benchmark(
            "imagenet-resnet",
            "worker.tasks.imagenet",
            "Image classification: ResNet-50 on ImageNet, to 75.9 % validation accuracy "
            "(light: 70 %).",
            light_args={"goal": "70"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.IMAGENET_RESNET,
        ),
        Benchmark(
            "logistic-regression",
            "worker.tasks.linear",
            "Linear learning: logistic regression on data in LIBSVM's format such as epsilon, to "
            "89 % validation accuracy (light: 80 %).",
            args={"model": "logistic"},
            light_args={"goal": "80"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.LOGISTIC_REGRESSION,
        ),
        Benchmark(
            "ridge-regression",
            "worker.tasks.linear",
            "Linear learning: linear regression with an L2 penalty on data in LIBSVM's format.",
            args={"model": "ridge"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.RIDGE_REGRESSION,
        ),
        Benchmark(
            "linear-svm",
            "worker.tasks.linear",
            "Linear learning: a linear support vector machine on data in LIBSVM's format such as "
            "rcv1, to 89 % validation accuracy (light: 80 %).",
            args={"model": "svm"},
            light_args={"goal": "80"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.LINEAR_SVM,
        ),
        Benchmark(
            "communication",
            "worker.tasks.communication",
            "No training: latency and bandwidth of all-reduce, broadcast and all-gather, from "
            "4 B to 256 MB, as nccl-tests defines them.",
            backends=_TORCH_BACKENDS,
            rules=rules.COMMUNICATION,
        ),
        Benchmark(
            "digits",
            "worker.tasks.digits",
            "A small ResNet on scikit-learn's handwritten digits, to 97 % validation accuracy "
            "(light: 90 %).",
            light_args={"goal": "90"},
            seeded=True,
            backends=_TORCH_BACKENDS,
            rules=rules.DIGITS,
        ),
        Benchmark(
            "digits-linear",
            "worker.tasks.digits_linear",
            "Multinomial logistic regression on scikit-learn's handwritten digits, to 93 % "
            "validation accuracy (light: 85 %).",
            light_args={"goal": "85"},
            seeded=True,
            backends=("gloo", "mpi"),
            rules=rules.DIGITS_LINEAR,
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

# By name, without the tag.
IMAGES = {
    "mlbench/pytorch-cifar10-resnet20-all-reduce": Image("cifar10-resnet", {"exchange": "flat"}),
    "mlbench/pytorch-cifar10-resnet20-ddp": Image("cifar10-resnet", {"exchange": "ddp"}),
    "mlbench/pytorch-epsilon-logistic-regression-all-reduce": Image("logistic-regression"),
    "mlbench/pytorch-backend-benchmark": Image("communication"),
}
# An image's name as orders may write it, with or without a tag.
IMAGE_PATTERN = rf"({'|'.join(IMAGES)})(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"


def find_image(name: str) -> Image | None:
    """Find the benchmark that an image of MLBench stands for; None for any other image."""
    found = re.fullmatch(IMAGE_PATTERN, name)
    return IMAGES[found[1]] if found else None
