"""The network has the shape it says, and looks at one image at a time."""

import pytest
import torch

from worker.models.digits_resnet import ResNet8


def test_it_has_eight_layers_and_classifies() -> None:
    model = ResNet8(in_channels=3, classes=7, width=16)
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    shortcuts = [layer for layer in layers if getattr(layer, "kernel_size", None) == (1, 1)]
    assert len(layers) - len(shortcuts) == 8


def test_its_size_is_that_of_the_digits_task() -> None:
    model = ResNet8(in_channels=1, classes=10, width=32)
    assert sum(parameter.numel() for parameter in model.parameters()) == 308_074


def test_an_image_does_not_see_the_others_of_its_batch() -> None:
    torch.manual_seed(0)
    model = ResNet8(in_channels=1, classes=10, width=8)
    images = torch.rand(6, 1, 8, 8)
    apart = torch.cat([model(image[None]) for image in images])
    assert torch.allclose(model(images), apart, atol=1e-5)


@pytest.mark.parametrize("layer", ["stem", "norm1", "conv2", "shortcut"])
def test_every_layer_takes_part(layer: str) -> None:
    torch.manual_seed(0)
    model = ResNet8(in_channels=1, classes=10, width=8)
    images = torch.rand(2, 1, 8, 8)
    before = model(images)
    changed = [p for name, p in model.named_parameters() if layer in name]
    assert changed
    with torch.no_grad():
        for parameter in changed:
            parameter.mul_(1.5).add_(0.1)
    assert not torch.allclose(model(images), before)
