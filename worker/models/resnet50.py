"""ResNet-50: the residual network of 50 layers for ImageNet, with bottleneck blocks.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015, table 1. As in Goyal et
al.: Accurate, Large Minibatch SGD, 2017, section 5.1, a block halves the image in its 3x3
convolution, and the scale of its last batch norm starts at 0, so that each block starts as its
shortcut. ReLUs overwrite what batch norm does not need again: less memory, the same values.
"""

import torch
from torch import nn
from torch.nn import functional

# Of each stage: the width of its blocks' 3x3 convolutions, their number, the first one's stride.
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
# A block has four times as many output channels as its 3x3 convolution.
_EXPANSION = 4


class ResNet50(nn.Module):
    """A stem, 16 bottleneck blocks in four stages, a classifier: 25,557,032 parameters.

    Takes float images ``[batch, 3, height, width]``, returns logits ``[batch, classes]``. Made for
    224x224 pixels; from 32x32 on, any size will do.
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        channels, stages = 64, []
        for width, blocks, stride in _STAGES:
            stages.append(_stage(channels, width, blocks, stride))
            channels = _EXPANSION * width
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)
        _initialize(self)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        features: torch.Tensor = self.stages(self.stem(images))
        logits: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution, and a shortcut around them."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        channels = _EXPANSION * width
        self.reduce = _conv(in_channels, width, kernel_size=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv = _conv(width, width, kernel_size=3, stride=stride)
        self.norm2 = nn.BatchNorm2d(width)
        self.expand = _conv(width, channels, kernel_size=1)
        self.norm3 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != channels:
            project = _conv(in_channels, channels, kernel_size=1, stride=stride)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, 4 * width, height / stride, width / stride]``."""
        residual = functional.relu(self.norm1(self.reduce(x)), inplace=True)
        residual = functional.relu(self.norm2(self.conv(residual)), inplace=True)
        residual = self.norm3(self.expand(residual))
        return functional.relu(residual.add_(self.shortcut(x)), inplace=True)


def _stage(in_channels: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    first = Bottleneck(in_channels, width, stride)
    others = [Bottleneck(_EXPANSION * width, width, stride=1) for _ in range(blocks - 1)]
    return nn.Sequential(first, *others)


def _conv(in_channels: int, channels: int, kernel_size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(
        in_channels,
        channels,
        kernel_size,
        stride=stride,
        padding=kernel_size // 2,
        bias=False,
    )


def _initialize(model: nn.Module) -> None:
    """Draw all parameters as Goyal et al. do.

    Convolutions: normal, with a variance of 2 by the number of inputs that each output feeds on
    the way back (He, Zhang, Ren, Sun: Delving Deep into Rectifiers, 2015).
    """
    for module in model.modules():
        match module:
            case nn.Conv2d():
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            case nn.Linear():
                nn.init.normal_(module.weight, std=0.01)
                nn.init.zeros_(module.bias)
            case Bottleneck():
                nn.init.zeros_(module.norm3.weight)
