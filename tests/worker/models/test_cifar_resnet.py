"""The networks have the layers and the parameters that the papers say, in both versions."""

from typing import get_args

import pytest
import torch
from torch import nn
from torch.nn import functional

from worker.models.cifar_resnet import BlockV1, BlockV2, CifarResNet, Depth, Version


# He et al. 2015, table 6: 0.27, 0.46, 0.66 and 0.85 million parameters.
@pytest.mark.parametrize(
    ("depth", "parameters"), [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018)]
)
@pytest.mark.parametrize("version", get_args(Version))
def test_sizes_are_those_of_the_paper(version: Version, depth: Depth, parameters: int) -> None:
    model = CifarResNet(depth, version)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == depth - 1, "one for each convolution"


@pytest.mark.parametrize("version", get_args(Version))
def test_it_halves_twice_and_classifies(version: Version) -> None:
    model = CifarResNet(20, version, classes=7)
    shapes = []
    for stage in model.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[1:])))
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)
    assert shapes == [(16, 32, 32)] * 3 + [(32, 16, 16)] * 3 + [(64, 8, 8)] * 3


@pytest.mark.parametrize("depth", [2, 21])
def test_another_depth_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="depth must be 6n \\+ 2"):
        CifarResNet(depth)  # type: ignore[arg-type]


def test_block_1_is_what_the_paper_draws() -> None:
    torch.manual_seed(0)
    block, x = BlockV1(16, 16), torch.randn(2, 16, 8, 8)
    inner = functional.relu(block.norm1(block.conv1(x)))
    assert torch.equal(block(x), functional.relu(block.norm2(block.conv2(inner)) + x))


def test_block_2_leaves_the_way_from_block_to_block_free() -> None:
    torch.manual_seed(0)
    block, x = BlockV2(16, 16), torch.randn(2, 16, 8, 8)
    assert block.norm1 is not None
    inner = block.conv1(functional.relu(block.norm1(x)))
    expected = x + block.conv2(functional.relu(block.norm2(inner)))
    assert torch.equal(block(x), expected)


@pytest.mark.parametrize("kind", [BlockV1, BlockV2])
def test_a_narrow_input_passes_with_every_second_pixel_and_zeros(
    kind: type[BlockV1 | BlockV2],
) -> None:
    block, x = kind(16, 32), torch.rand(2, 16, 8, 8)
    with torch.no_grad():
        block.conv2.weight.zero_()  # nothing but the shortcut is left
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


@pytest.mark.parametrize("version", get_args(Version))
def test_working_in_place_changes_no_gradient(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.rand(3, 3, 32, 32)

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = CifarResNet(20, version)
        return list(torch.autograd.grad(model(images).square().sum(), list(model.parameters())))

    in_place = gradients()
    monkeypatch.setattr(functional, "relu_", functional.relu)
    assert all(map(torch.equal, in_place, gradients()))


@pytest.mark.parametrize("version", get_args(Version))
def test_every_parameter_takes_part(version: Version) -> None:
    model = CifarResNet(20, version)
    model(torch.rand(3, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
