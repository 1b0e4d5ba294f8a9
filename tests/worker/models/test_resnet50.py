"""ResNet-50 is the network of the papers: its layers, its size, how it starts, that it learns."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from worker.models.resnet50 import Bottleneck, ResNet50

# He et al. 2015, table 1, column "50-layer": what each stage's blocks consist of.
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


def test_it_has_as_many_parameters_as_the_paper_s(model: ResNet50) -> None:
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032


def test_its_layers_are_those_of_the_paper_s_table(model: ResNet50) -> None:
    found: dict[int, list[list[tuple[int, int]]]] = {}

    def note(block: nn.Module, _: object, features: torch.Tensor) -> None:
        assert isinstance(block, Bottleneck)
        convolutions = (block.reduce, block.conv, block.expand)
        shapes = [(c.kernel_size[0], c.out_channels) for c in convolutions]
        found.setdefault(features.shape[-1], []).append(shapes)

    hooks = [block.register_forward_hook(note) for block in blocks(model)]
    with torch.inference_mode():
        assert model.eval()(torch.randn(1, 3, 224, 224)).shape == (1, 1000)
    for hook in hooks:
        hook.remove()
    assert found == _TABLE


def test_images_are_halved_in_3x3_convolutions(model: ResNet50) -> None:
    strides = [block.conv.stride[0] for block in blocks(model)]
    assert strides == [1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1]
    ones = [c.stride[0] for b in blocks(model) for c in (b.reduce, b.expand)]
    assert set(ones) == {1}


def test_convolutions_start_normal_and_the_classifier_small(model: ResNet50) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            outputs = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.05)
    assert model.classifier.weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert not model.classifier.bias.any()


def test_a_block_starts_as_its_shortcut() -> None:
    block = blocks(ResNet50())[1]
    features = torch.randn(2, 256, 8, 8)
    assert torch.equal(block(features), functional.relu(features))


def test_overwriting_changes_no_value_and_no_gradient() -> None:
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

    found = block(x)
    assert torch.equal(found, plain)
    for gradient, other in zip(
        torch.autograd.grad((found * weights).sum(), inputs), expected, strict=True
    ):
        assert torch.equal(gradient, other)


def test_every_parameter_that_can_gets_a_gradient() -> None:
    torch.manual_seed(2)
    model = ResNet50(classes=4)
    loss = functional.cross_entropy(model(torch.randn(4, 3, 64, 64)), torch.arange(4))
    loss.backward()  # type: ignore[no-untyped-call]
    # While the scale of a block's last norm is 0, nothing flows into the layers before it.
    inner = {
        id(parameter)
        for block in blocks(model)
        for layer in (block.reduce, block.norm1, block.conv, block.norm2, block.expand)
        for parameter in layer.parameters()
    }
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.any() == (id(parameter) not in inner), name
        assert parameter.grad.isfinite().all(), name


def blocks(model: ResNet50) -> list[Bottleneck]:
    return [module for module in model.modules() if isinstance(module, Bottleneck)]
