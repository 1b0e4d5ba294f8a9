"""The ImageNet task: its training on small generated images, and its network."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from mlbench.contract import names
from mlbench.tracking.totals import Totals
from mlbench_worker.tasks.imagenet import Bottleneck, ResNet50
from mlbench_worker.training.trainer import decay_weights_only
from tests.support.image_files import make_image_folder
from tests.support.ranks import Rank, assert_same_losses, assert_stopped_at, run_ranks

_RATE = 0.3
_TASK = (
    *("-m", "mlbench_worker.tasks.imagenet"),
    *("--image-size=32", "--worker-batch-size=8", f"--learning-rate={_RATE}"),
)
_IMAGES = 16  # images per class and part, with two classes
_STEPS = 2  # steps per epoch with two workers


@pytest.fixture(scope="module", autouse=True)
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Images with a colour per class."""
    folder = tmp_path_factory.mktemp("datasets")
    make_image_folder(folder / "imagenet", _IMAGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_DATASETS, str(folder))
        yield


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two workers with a loading process each, trained to the goal."""
    folder = tmp_path_factory.mktemp("two")
    return run_ranks(folder, 2, *_TASK, "--goal=95", "--epochs=9", "--loaders=1")


def test_two_workers_train_and_stop_at_the_goal(two: list[Rank]) -> None:
    accuracies = assert_stopped_at(95, two)
    for rank in two:
        # With two classes, the right one is always among the top five.
        assert rank.series(names.VAL_ACCURACY5) == [100.0] * len(accuracies)
        assert len(rank.series(names.TRAIN_LOSS)) == _STEPS * len(accuracies)
        # A step has 16 images. The rate is specified for 256.
        assert set(rank.series(names.LEARNING_RATE)) == {_RATE * 16 / 256}
    assert two[0].series(names.TRAIN_LOSS) != two[1].series(names.TRAIN_LOSS)


def test_the_settings_include_the_amount_of_data(two: list[Rank]) -> None:
    [settings] = two[0].stated("settings")
    images = {"train_samples": 2 * _IMAGES, "validation_samples": 2 * _IMAGES, "classes": 2}
    rest = {"worker_batch_size": 8, "batch_size": 16, "data": "imagenet", "seed": 0}
    assert settings.items() >= {**images, **rest}.items()
    assert len(settings["data_sha256"]) == 64


def test_loading_processes_do_not_count_steps(two: list[Rank]) -> None:
    for rank in two:
        [file] = rank.metrics_file.parent.glob(f"{rank.metrics_file.name}.*.totals")
        steps = len(rank.series(names.LEARNING_RATE))
        assert Totals.unpack(file.read_bytes()).steps == steps


def test_the_same_seed_gives_the_same_losses(two: list[Rank], tmp_path: Path) -> None:
    again = run_ranks(tmp_path, 2, *_TASK, "--epochs=1", "--loaders=0", "--goal=95")
    assert_same_losses(two, again)


def test_only_weights_decay_and_not_biases_or_norms(model: ResNet50) -> None:
    decaying, constant = decay_weights_only(model, 1e-4)
    assert (decaying["weight_decay"], constant["weight_decay"]) == (1e-4, 0.0)
    weights = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)
    }
    every = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in decaying["params"]} == weights
    assert {id(parameter) for parameter in constant["params"]} == every - weights


# He et al. 2015, table 1, column "50-layer": the convolutions of each stage's blocks.
_TABLE = {
    56: 3 * [[(1, 64), (3, 64), (1, 256)]],
    28: 4 * [[(1, 128), (3, 128), (1, 512)]],
    14: 6 * [[(1, 256), (3, 256), (1, 1024)]],
    7: 3 * [[(1, 512), (3, 512), (1, 2048)]],
}


@pytest.fixture(scope="module")
def model() -> ResNet50:
    torch.manual_seed(0)
    return ResNet50()


def test_the_layers_match_the_table_of_the_paper(model: ResNet50) -> None:
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032
    table: dict[int, list[list[tuple[int, int]]]] = {}

    def note(block: nn.Module, _: object, features: torch.Tensor) -> None:
        assert isinstance(block, Bottleneck)
        convolutions = (block.reduce, block.conv, block.expand)
        shapes = [(c.kernel_size[0], c.out_channels) for c in convolutions]
        table.setdefault(features.shape[-1], []).append(shapes)

    hooks = [block.register_forward_hook(note) for block in blocks(model)]
    with torch.inference_mode():
        assert model.eval()(torch.randn(1, 3, 224, 224)).shape == (1, 1000)
    for hook in hooks:
        hook.remove()
    assert table == _TABLE


def test_initial_weights_have_the_expected_deviations(model: ResNet50) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            outputs = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.05)
    assert model.classifier.weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert not model.classifier.bias.any()


def test_an_initial_block_passes_only_its_shortcut() -> None:
    block = blocks(ResNet50())[1]
    features = torch.randn(2, 256, 8, 8)
    assert torch.equal(block(features), functional.relu(features))


def test_in_place_operations_do_not_change_values_or_gradients() -> None:
    torch.manual_seed(1)
    block = Bottleneck(64, 16, stride=1).double()
    nn.init.normal_(block.norm3.weight)
    x = torch.randn(2, 64, 4, 4, dtype=torch.float64, requires_grad=True)

    plain = functional.relu(block.norm1(block.reduce(x)))
    plain = functional.relu(block.norm2(block.conv(plain)))
    plain = functional.relu(block.norm3(block.expand(plain)) + x)
    weights = torch.randn_like(plain)
    inputs = (x, *block.parameters())
    expected = torch.autograd.grad((plain * weights).sum(), inputs)

    output = block(x)
    assert torch.equal(output, plain)
    for gradient, other in zip(
        torch.autograd.grad((output * weights).sum(), inputs), expected, strict=True
    ):
        assert torch.equal(gradient, other)


def blocks(model: ResNet50) -> list[Bottleneck]:
    return [module for module in model.modules() if isinstance(module, Bottleneck)]
