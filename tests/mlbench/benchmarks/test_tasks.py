"""Each task refuses invalid options and states which values are valid."""

from typing import Any

import pytest

from mlbench.benchmarks.options import OptionError, Options, read
from mlbench.benchmarks.task_options import in_use
from mlbench.benchmarks.tasks import (
    Cifar10Options,
    CommunicationOptions,
    DigitsLinearOptions,
    DigitsOptions,
    ImagenetOptions,
    LinearOptions,
    StepsOptions,
)


@pytest.mark.parametrize(
    ("config", "words", "said"),
    [
        (Cifar10Options, "depth=18", "depth must be"),
        (Cifar10Options, "worker_batch_size=0", "worker_batch_size must be at least 1"),
        (Cifar10Options, "goal=101", "goal must be from 0 to 100"),
        (Cifar10Options, "compression=zip", "compression must be"),
        (Cifar10Options, "compression=fp16 exchange=flat", "compression needs exchange=ddp"),
        (DigitsOptions, "density=0.1", "density needs exchange=topk or randomk or choco"),
        (DigitsOptions, "density=0 exchange=topk", "density must be more than 0"),
        (
            DigitsOptions,
            "precision=fp16 exchange=topk",
            "precision must not be fp16 with exchange=",
        ),
        (ImagenetOptions, "image_size=31", "image_size must be at least 32"),
        (ImagenetOptions, "loaders=-1", "loaders must be"),
        (ImagenetOptions, "momentum=0", "momentum must be more than 0"),
        (DigitsOptions, "batch_size=1434", "batch_size must be from 1 to 1433"),
        (DigitsOptions, "momentum=1", "momentum must be"),
        (DigitsOptions, "seed=-1", "seed must be"),
        (DigitsLinearOptions, "batch_size=1434", "batch_size must be"),
        (DigitsLinearOptions, "learning_rate=nan", "learning_rate must be a finite number"),
        (DigitsLinearOptions, "l2=-1", "l2 must be at least 0"),
        (LinearOptions, "batch_size=0", "batch_size must be at least 1"),
        (LinearOptions, "decay=2", "decay must be from 0 to 1"),
        (LinearOptions, "momentum=0.9 framework=jax", "momentum needs framework=torch"),
        (LinearOptions, "record_every=0", "record_every must be"),
        (StepsOptions, "steps=0", "steps must be at least 1"),
        (StepsOptions, "rate=nan", "rate must be a finite number"),
        (CommunicationOptions, "dtypes=float32,int16", "dtypes must be among float32, float64"),
        (CommunicationOptions, "dtypes=", "dtypes must be among"),
        (CommunicationOptions, "backend=mpi dtypes=float16", "dtypes with mpi must not be"),
        (CommunicationOptions, "backend=nccl device=cpu", "device must be cuda, or auto"),
        (CommunicationOptions, "operations=reduce", "operations must be among all_reduce"),
        (CommunicationOptions, "max_bytes=3", "max_bytes must be at least min_bytes"),
        (CommunicationOptions, "factor=1", "factor must be at least 2"),
        (CommunicationOptions, "seconds=inf", "seconds must be"),
        (CommunicationOptions, "rounds=4", "rounds must be at least 5"),
    ],
)
def test_an_invalid_value_is_refused(config: type[Options], words: str, said: str) -> None:
    texts = dict(word.split("=") for word in words.split())
    with pytest.raises(OptionError) as refused:
        read(config, texts)
    assert str(refused.value).startswith(said)


def test_a_recipe_sets_its_learning_rate_unless_one_is_given() -> None:
    assert read(Cifar10Options, {"recipe": "mlbench-2020"}).learning_rate == 0.02
    assert read(Cifar10Options, {"recipe": "mlbench-2020", "learning-rate": "1"}).learning_rate == 1
    assert read(Cifar10Options, {"recipe": "one-cycle"}).epochs == 8
    assert read(Cifar10Options, {"recipe": "he-2015"}) == Cifar10Options()


def test_settings_of_unused_algorithms_are_left_out() -> None:
    settings: Any = {"topology": "ring", "density": 0.01, "bits": 4, "epochs": 3}
    used = in_use({"exchange": "choco"} | settings)
    assert [*used] == ["exchange", "topology", "density", "epochs"]
    for own in ({"exchange": "mine"} | settings, settings):
        assert in_use(own) == own
