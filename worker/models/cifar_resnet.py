"""The residual networks for CIFAR-10: 20, 32, 44 or 56 layers, in the versions of 2015 and 2016.

Version 1: He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, 2015, section 4.2.
Version 2: the same authors: Identity Mappings in Deep Residual Networks, 2016: batch norm and ReLU
come before each convolution, and nothing but the sum is on the way from block to block.

Both have 6n + 2 layers: a convolution, three stages of n blocks with 16, 32 and 64 channels at
32x32, 16x16 and 8x8 pixels, global average pooling, a linear classifier. Shortcuts have no
parameters (option A): where the size halves, every second pixel is taken, and zeros fill up the new
channels. ReLU and the sum work in place, which spares the memory a third of its traffic and changes
no number.
"""

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

Version = Literal[1, 2]
Depth = Literal[20, 32, 44, 56]


class CifarResNet(nn.Module):
    """Takes float images ``[batch, 3, 32, 32]``, returns logits ``[batch, classes]``."""

    def __init__(self, depth: Depth = 20, version: Version = 1, classes: int = 10) -> None:
        """Draw the weights from a normal distribution as He et al. 2015 (Delving Deep) derive it.

        Raises:
            ValueError: ``depth`` is not 6n + 2.
        """
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or not blocks:
            raise ValueError(f"depth must be 6n + 2, such as 20 (not {depth})")
        block: type[BlockV1 | BlockV2]
        first: nn.Module
        self.last_norm: nn.Module | None
        if version == 1:
            block, first, self.last_norm = BlockV1, BlockV1(16, 16), None
        else:
            # What follows the stem is activated already, but nothing activates the last sum.
            block, first = BlockV2, BlockV2(16, 16, activated=True)
            self.last_norm = nn.BatchNorm2d(64)
        self.stem = nn.Conv2d(3, 16, kernel_size=3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(16)
        self.stages = nn.Sequential(
            first,
            *(block(16, 16) for _ in range(blocks - 1)),
            block(16, 32),
            *(block(32, 32) for _ in range(blocks - 1)),
            block(32, 64),
            *(block(64, 64) for _ in range(blocks - 1)),
        )
        self.classifier = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch of images."""
        x = functional.relu_(self.first_norm(self.stem(images)))
        x = self.stages(x)
        if self.last_norm is not None:
            x = functional.relu_(self.last_norm(x))
        logits: torch.Tensor = self.classifier(x.mean(dim=(2, 3)))
        return logits


class BlockV1(nn.Module):
    """Convolution, norm, ReLU, convolution, norm; the sum with the input; ReLU."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(in_channels, channels)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, channels, height, width]``, of half the size if channels grow."""
        residual: torch.Tensor = functional.relu_(self.norm1(self.conv1(x)))
        residual = self.norm2(self.conv2(residual))
        residual += _shortcut(x, residual)
        return functional.relu_(residual)


class BlockV2(nn.Module):
    """Norm, ReLU, convolution, twice; the sum with the input."""

    def __init__(self, in_channels: int, channels: int, *, activated: bool = False) -> None:
        """``activated``: the input has gone through norm and ReLU already."""
        super().__init__()
        self.norm1 = None if activated else nn.BatchNorm2d(in_channels)
        self.conv1 = _conv3x3(in_channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, channels, height, width]``, of half the size if channels grow."""
        active = x if self.norm1 is None else functional.relu_(self.norm1(x))
        residual: torch.Tensor = self.conv1(active)
        residual = self.conv2(functional.relu_(self.norm2(residual)))
        residual += _shortcut(x, residual)
        return residual


def _shortcut(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return the input in the shape of the residual."""
    new_channels = residual.shape[1] - x.shape[1]
    if not new_channels:
        return x
    half = new_channels // 2
    return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))


def _conv3x3(in_channels: int, channels: int) -> nn.Conv2d:
    """Return a convolution that halves the size where there are more channels than before."""
    stride = 1 if in_channels == channels else 2
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)
