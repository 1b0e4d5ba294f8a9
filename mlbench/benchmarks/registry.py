"""Benchmarks with their rules for the closed division, and MLBench's published images."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

from mlbench.benchmarks import tasks
from mlbench.benchmarks.options import Options, describe
from mlbench.benchmarks.task_options import Backend, TrainingOptions
from mlbench.contract.records import Target
from mlbench.contract.reported_settings import Setting

Rules = Mapping[str, tuple[Setting, ...]]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: a Python module that every worker can run, with its options and rules."""

    name: str
    module: str
    options: type[Options]
    description: str
    args: Mapping[str, str] = field(default_factory=dict)
    """Arguments that select the benchmark if its module has several."""
    least_workers: int = 1
    """Minimum number of workers."""
    facts: Rules = field(default_factory=dict)
    """Settings, besides options, that the closed division requires, such as the data's digest."""

    @property
    def rules(self) -> Rules:
        """Values that a setting may have in the closed division, by setting; the default first."""
        return self._rules({})

    def _rules(self, settings: Mapping[str, Setting]) -> Rules:
        """Return the rules, with the defaults that the settings imply."""
        implied = self.options.implied(settings)
        rules = {
            option.name: (implied.get(option.name, option.default), *option.permitted[1:])
            for option in describe(self.options)
            if option.permitted
        }
        return {**rules, **{name: (value,) for name, value in self.args.items()}, **self.facts}

    def broken_rules(self, settings: Mapping[str, Setting]) -> Rules:
        """Return the rules that a run with these settings violates; a missing setting does too."""
        rules = self._rules(settings).items()
        return {name: allowed for name, allowed in rules if settings.get(name) not in allowed}

    @property
    def target(self) -> Target | None:
        """Default target; None for a benchmark without a target."""
        return self._target(0)

    @property
    def light_target(self) -> Target | None:
        """Target of a run with ``light_target``; None for a benchmark without a light target."""
        return self._target(1)

    @property
    def light_args(self) -> Mapping[str, str]:
        """Arguments that select the light target; empty for a benchmark without one."""
        return {"goal": f"{self.light_target.value:g}"} if self.light_target else {}

    def _target(self, position: int) -> Target | None:
        """Return the target at a position among the allowed ones; None if there is none."""
        values = self.rules.get("goal", ())[position : position + 1]
        if not values or not isinstance(values[0], float):
            return None
        assert issubclass(self.options, TrainingOptions)
        return Target(self.options.goal_metric, values[0], self.options.lower_is_better)

    @property
    def seeded(self) -> bool:
        """Whether the benchmark has a seed."""
        return hasattr(self.options, "seed")

    @property
    def on_gpu(self) -> bool:
        """Whether the benchmark can run on a GPU."""
        return hasattr(self.options, "device")

    @property
    def backends(self) -> tuple[str, ...]:
        """Possible communication backends; empty for a benchmark that does not communicate."""
        if not hasattr(self.options, "backend"):
            return ()
        # nccl supports only tensors on GPUs.
        return tuple(name for name in get_args(Backend) if name != "nccl" or self.on_gpu)

    def backends_among(self, available: Collection[str]) -> tuple[str, ...]:
        """Return the benchmark's backends that are among the available ones."""
        return tuple(name for name in self.backends if name in available)


@dataclass(frozen=True)
class Image:
    """An image that MLBench published, as a benchmark with arguments."""

    benchmark: str
    args: Mapping[str, str] = field(default_factory=dict)


_DIGITS_DATA: Rules = {
    "data_sha256": ("08484fe15f4b3d1722f3c2ab8af281fd80f52417edb9422c44a1b23935531ef3",)
}
_SOTU_DATA: Rules = {
    "data_sha256": ("074bba9165be86814ad1e9793e862cf60cfd98eb5e658b93e0c03cf8ac449b36",)
}

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "cifar10-resnet",
            "mlbench_worker.tasks.cifar10",
            tasks.Cifar10Options,
            "Image classification: a ResNet (v1 or v2, 20 to 56 layers) on CIFAR-10, to 80 % "
            "validation accuracy (light: 70 %).",
            facts={
                "data_sha256": ("6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",)
            },
        ),
        Benchmark(
            "imagenet-resnet",
            "mlbench_worker.tasks.imagenet",
            tasks.ImagenetOptions,
            "Image classification: ResNet-50 on ImageNet, to 75.9 % validation accuracy "
            "(light: 70 %).",
            facts={
                "classes": (1000,),
                "train_samples": (1_281_167,),
                "validation_samples": (50_000,),
            },
        ),
        Benchmark(
            "logistic-regression",
            "mlbench_worker.tasks.linear",
            tasks.LinearOptions,
            "Linear learning: logistic regression on data in LIBSVM's format such as epsilon, to "
            "89 % validation accuracy (light: 80 %).",
            args={"model": "logistic"},
        ),
        Benchmark(
            "ridge-regression",
            "mlbench_worker.tasks.linear",
            tasks.LinearOptions,
            "Linear learning: linear regression with an L2 penalty on data in LIBSVM's format.",
            args={"model": "ridge"},
            facts={"goal": (None,)},  # it trains all the epochs
        ),
        Benchmark(
            "linear-svm",
            "mlbench_worker.tasks.linear",
            tasks.LinearOptions,
            "Linear learning: a linear support vector machine on data in LIBSVM's format such as "
            "rcv1, to 89 % validation accuracy (light: 80 %).",
            args={"model": "svm"},
        ),
        Benchmark(
            "communication",
            "mlbench_worker.tasks.communication",
            tasks.CommunicationOptions,
            "No training: latency and bandwidth of all-reduce, broadcast and all-gather, from "
            "4 B to 256 MB, as nccl-tests defines them.",
            least_workers=2,
        ),
        Benchmark(
            "digits",
            "mlbench_worker.tasks.digits",
            tasks.DigitsOptions,
            "A small ResNet on scikit-learn's handwritten digits, to 97 % validation accuracy "
            "(light: 90 %).",
            facts=_DIGITS_DATA,
        ),
        Benchmark(
            "digits-linear",
            "mlbench_worker.tasks.digits_linear",
            tasks.DigitsLinearOptions,
            "Multinomial logistic regression on scikit-learn's handwritten digits, to 93 % "
            "validation accuracy (light: 85 %).",
            facts=_DIGITS_DATA,
        ),
        Benchmark(
            "wikitext2-lstm",
            "mlbench_worker.tasks.wikitext2",
            tasks.WikiText2Options,
            "Language modelling: AWD-LSTM on WikiText-2, to a validation perplexity of 70 "
            "(light: 90).",
            facts={
                "train_samples": (2_088_628,),
                "validation_samples": (217_646,),
                "vocabulary": (33_278,),
            },
        ),
        Benchmark(
            "sotu-lstm",
            "mlbench_worker.tasks.lstm",
            tasks.LstmOptions,
            "Language modelling: a small AWD-LSTM on the words of 233 presidents' addresses, to a "
            "validation perplexity of 120 (light: 150).",
            facts=_SOTU_DATA,
        ),
        Benchmark(
            "sotu-gpt",
            "mlbench_worker.tasks.gpt",
            tasks.GptOptions,
            "Language modelling: a small Transformer on the bytes of 233 presidents' addresses, to "
            "a validation perplexity of 6 (light: 8).",
            facts=_SOTU_DATA,
        ),
        Benchmark(
            "steps",
            "mlbench_worker.tasks.steps",
            tasks.StepsOptions,
            "No training: logs steps at a steady rate, to check the recording chain.",
        ),
    )
}

# Benchmark of a request that names none.
DEFAULT = BENCHMARKS["digits"]

# MLBench's images by name, without the tag.
IMAGES = {
    "mlbench/pytorch-cifar10-resnet20-all-reduce": Image("cifar10-resnet", {"exchange": "flat"}),
    "mlbench/pytorch-cifar10-resnet20-ddp": Image("cifar10-resnet", {"exchange": "ddp"}),
    "mlbench/pytorch-epsilon-logistic-regression-all-reduce": Image("logistic-regression"),
    "mlbench/pytorch-wikitext2-lstm-all-reduce": Image("wikitext2-lstm"),
    "mlbench/pytorch-backend-benchmark": Image("communication"),
}
_NO_TRANSLATION = "machine translation is not a benchmark here"
# Reasons why images of MLBench have no benchmark here, by name without the tag.
MISSING_IMAGES = {
    "mlbench/pytorch-wmt16-gnmt-all-reduce": _NO_TRANSLATION,
    "mlbench/pytorch-wmt17-transformer-all-reduce": _NO_TRANSLATION,
    "mlbench/tensorflow-cifar10-resnet": (
        "TensorFlow does not use Open MPI here: name the benchmark cifar10-resnet with "
        "args framework=tensorflow"
    ),
}
# Pattern of an image's name in a request, with or without a tag.
IMAGE_PATTERN = rf"({'|'.join(IMAGES)})(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"


def find_image(name: str) -> Image | None:
    """Return the benchmark that corresponds to an image of MLBench; None for any other image."""
    match = re.fullmatch(IMAGE_PATTERN, name)
    return IMAGES[match[1]] if match else None
