"""The sections of the page of results: what is measured for each, and what it shows."""

from dataclasses import dataclass

from benchmarks.results.parts import Part, Published, Summing, of_report, to_goals
from benchmarks.results.sets import Bench

_EXCHANGES = "ddp,local-sgd,decentralized,choco,signsgd,topk,powersgd,qsgd"
_MLBENCH_2020 = (
    "MLBench's documentation, Benchmark Results, task 1a: PyTorch 1.5 on machines of the type "
    "n1-standard-4, of which a worker had 3 cores."
)


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    key: str
    """On the command line."""
    title: str
    text: str
    """What is asked, in Markdown, without any figure that was measured."""
    sets: tuple[Bench, ...]
    parts: tuple[Part, ...]
    """What is shown of each set."""
    together: tuple[Summing, ...] = ()
    """What is shown of all of them, at the end."""


_TO_GOAL = of_report("val_global_Prec@1", "Where the time went")

SECTIONS = (
    Section(
        "cifar10",
        "CIFAR-10: task 1a",
        "ResNet-20 to 80 % validation accuracy, and to the light goal of 70 % on the way. The "
        "images were JPEG files, which `python -m benchmarks.cifar10_from_images` brought into the "
        "archive's format: nearly the originals, but not the standard archive. The recipe is the "
        "fastest here, with two workers of one core.",
        (
            Bench(
                "results-cifar10",
                "cifar10-resnet --workers 2 --repeats 5 --set recipe=one-cycle "
                "--set precision=bf16",
                45,
            ),
        ),
        (_TO_GOAL,),
        (to_goals((70.0, 80.0)),),
    ),
    Section(
        "cifar10-alone",
        "CIFAR-10 by one worker: one run",
        "The same recipe, data and goals with one worker of one core.",
        (
            Bench(
                "results-cifar10-alone",
                "cifar10-resnet --workers 1 --repeats 1 --cpus 1 --set recipe=one-cycle "
                "--set precision=bf16",
                16,
            ),
        ),
        (_TO_GOAL,),
        (to_goals((70.0, 80.0)),),
    ),
    Section(
        "cifar10-mlbench",
        "CIFAR-10 by MLBench's own recipe: one run",
        "The same task and images with the learning rates of MLBench's own implementation, in "
        "fp32 as there, by one worker of two cores; beside the times that MLBench published, on "
        "other machines.",
        (
            Bench(
                "results-cifar10-mlbench",
                "cifar10-resnet --workers 1 --repeats 1 --cpus 2 --set recipe=mlbench-2020",
                20,
            ),
        ),
        (_TO_GOAL,),
        (
            to_goals(
                (70.0, 80.0),
                (
                    Published("MLBench, 1 worker", 80.0, 5895, _MLBENCH_2020),
                    Published("MLBench, 1 worker with an NVIDIA T4", 80.0, 407, _MLBENCH_2020),
                ),
            ),
        ),
    ),
    Section(
        "scaling",
        "One and two workers",
        "How much faster two workers are than one, each with one core of the same machine.",
        (
            Bench("results-digits", "digits --workers 1,2 --repeats 5", 3),
            Bench("results-digits-linear", "digits-linear --workers 1,2 --repeats 5", 2),
        ),
        (of_report("Time to accuracy", "Throughput and cost", "Speed-up", "Where the time went"),),
    ),
    Section(
        "frameworks",
        "Three frameworks",
        "The same tasks in PyTorch, JAX and TensorFlow: the same data in the same order, initial "
        "weights, schedule and evaluation. Logistic regression has LIBSVM's set a9a, of which "
        "32,560 rows could be had; a fifth is for validation. On CIFAR-10 the question is "
        "speed, with one run each. "
        "How many times as fast PyTorch is there is a matter of convolutions of 8 by 8 pixels on "
        "one kind of processor, oneDNN's against XLA's and Eigen's: on another kind, the ratio is "
        "another.",
        (
            Bench(
                "results-frameworks",
                "digits --workers 1,2 --repeats 5 --sweep framework=torch,jax,tensorflow",
                13,
            ),
            Bench(
                "results-frameworks-logistic",
                "logistic-regression --workers 2 --repeats 5 --set dataset=a9a --set goal=84 "
                "--sweep framework=torch,jax,tensorflow",
                7,
            ),
            Bench(
                "results-frameworks-cifar10",
                "cifar10-resnet --workers 2 --repeats 1 --deadline 2m "
                "--sweep framework=torch,jax,tensorflow",
                9,
            ),
        ),
        (of_report("Time to accuracy", "Throughput and cost", "Where the time went"),),
    ),
    Section(
        "exchanges",
        "Eight algorithms over five bandwidths",
        "The ways in which two workers can exchange what they have learned, by the bandwidth in "
        "Mbit/s that each may send, to the light goal of 90 %. Each has the learning rate and the "
        "momentum that a small search found for it, on other seeds "
        "(`benchmarks/exchange_tuning.py`). Up to 3 kB pass at once, whatever the bandwidth.",
        (
            Bench(
                "results-exchanges",
                "digits --light --workers 2 --repeats 5 --set recipe=tuned "
                f"--sweep exchange={_EXCHANGES} --sweep bandwidth=5,20,80,320,999",
                60,
            ),
        ),
        (of_report("Time to accuracy by", "Crossings", "Performance profiles"),),
    ),
    Section(
        "language",
        "Language models: one run each",
        "Perplexity of the addresses on the State of the Union: an LSTM and a Transformer, both of "
        "a size that a laptop trains in minutes.",
        (
            Bench("results-lstm", "sotu-lstm --workers 2 --repeats 1", 7),
            Bench("results-gpt", "sotu-gpt --workers 2 --repeats 1", 3),
        ),
        (of_report("Runs", "val_"),),
    ),
)
