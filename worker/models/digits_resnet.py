"""ResNet-8: the smallest of the residual networks for small images.

He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015, section 4.2, with n = 1
and projection shortcuts (option B). Group normalization (Wu, He 2018) stands in for batch
normalization: it looks at one image at a time, so a model trained on several workers is the same
as on one, and has no running statistics that would differ by worker.
"""

import torch
from torch import nn
from torch.nn import functional

# Channels that are normalized together.
_GROUP = 8


class ResNet8(nn.Module):
    """A stem, three residual blocks of ``width``, 2 and 4 times ``width`` channels, a classifier.

    Takes float images ``[batch, in_channels, height, width]`` of at least 4x4 pixels, returns
    logits ``[batch, classes]``. ``width`` is a multiple of 8.
    """

    def __init__(self, in_channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.stem = _conv3x3(in_channels, width)
        self.norm = _norm(width)
        self.blocks = nn.Sequential(
            Block(width, width),
            Block(width, 2 * width, stride=2),
            Block(2 * width, 4 * width, stride=2),
        )
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        features: torch.Tensor = self.blocks(functional.relu(self.norm(self.stem(images))))
        logits: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = _conv3x3(in_channels, channels, stride)
        self.norm1 = _norm(channels)
        self.conv2 = _conv3x3(channels, channels)
        self.norm2 = _norm(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != channels:
            project = nn.Conv2d(in_channels, channels, kernel_size=1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(project, _norm(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, channels, height / stride, width / stride]``."""
        residual = functional.relu(self.norm1(self.conv1(x)))
        residual = self.norm2(self.conv2(residual))
        return functional.relu(residual + self.shortcut(x))


def _conv3x3(in_channels: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // _GROUP, channels)
