"""Official benchmarks, benchmarks of extensions, and MLBench's published images."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlbench.benchmarks import tasks
from mlbench.benchmarks.benchmark import Benchmark, Rules
from mlbench.contract.extensions import load_all


@dataclass(frozen=True)
class Image:
    """An image that MLBench published, as a benchmark with arguments."""

    benchmark: str
    args: Mapping[str, str] = field(default_factory=dict)


_DIGITS_DATA: Rules = {
    "data_sha256": ("08484fe15f4b3d1722f3c2ab8af281fd80f52417edb9422c44a1b23935531ef3",)
}
_SOTU_DATA: Rules = {"data_sha256": (tasks.SOTU_SHA256,)}

BENCHMARKS: Mapping[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "cifar10-resnet",
            "mlbench_worker.tasks.cifar10",
            tasks.Cifar10Options,
            "Image classification: a ResNet (v1 or v2, 20 to 56 layers) on CIFAR-10, to 80 % "
            "validation accuracy (light: 70 %).",
            facts={"data_sha256": (tasks.CIFAR10_SHA256,)},
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
} | load_all("mlbench.benchmarks")

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
