"""Handwritten digits: a small ResNet to 97 % validation accuracy, on any number of workers.

Data: the 1,797 digits of 8x8 pixels that ship with scikit-learn. Every fifth of each digit, 364 in
all, is for validation. The other 1,433, shifted by up to a pixel either way, are for training.
Model: ResNet-8 (He et al.: Deep Residual Learning for Image Recognition, 2015, section 4.2, with
n = 1 and projection shortcuts) with group normalization, 308,074 parameters.
Algorithm: synchronous SGD with momentum. The workers share the 128 images of a step, and their
gradients are summed by all-reduce: any number of workers trains the same model, up to rounding.
Learning rate 0.05, momentum 0.9, weight decay 0.0005, all constant.
Goal: ``val_global_Prec@1`` of 97 %, evaluated after each epoch of 11 steps.

Measured with seeds 0 to 11, one thread per worker, all workers of a run on the same two cores of an
AMD EPYC (family 26) at 2.6 GHz that also ran other programs; PyTorch 2.13, gloo. All 36 trials
reach the goal. Median, with the range:

    workers   epochs       seconds of training
    1         9.5 (7..14)  3.0 (2.1..4.8)
    2         9.5 (7..14)  3.4 (1.9..6.0)
    4         11 (7..13)   5.8 (4.1..11.0)
"""

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import DigitsOptions
from mlbench_worker.data.digits import CLASSES, load_digits
from mlbench_worker.data.images import augmented_batches
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.training.frameworks import make_trainer, versions
from mlbench_worker.training.session import start


def main(config: DigitsOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        session.set_goal(config)

        data = load_digits()
        train = data.train.to(session.execution.device)
        validation = data.validation.shard(session.world).to(session.execution.device)
        session.state_settings(
            config,
            **versions(config),
            data="digits",
            data_sha256=data.sha256,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
        )
        session.say(f"{len(train)} images to train, {len(data.validation)} to validate")

        torch.manual_seed(config.seed)
        model = ResNet8(in_channels=1, classes=CLASSES, width=32)
        batch_size = config.batch_size
        trainer = make_trainer(
            session, config, model, lambda step: config.learning_rate, train, batch_size
        )

        for epoch in session.epochs(config, trainer.parts):
            first = session.progress.batches
            batches = augmented_batches(
                train, batch_size, session.world, config.seed, epoch, first, shift=1, flip=False
            )
            trained = trainer.train(batches, batch_size)
            validated = trainer.evaluate([validation])
            trainer.record(epoch, trained, validated)


class ResNet8(nn.Module):
    """A stem, three residual blocks of ``width``, 2 and 4 times ``width`` channels, a classifier.

    Takes float images ``[batch, in_channels, height, width]`` of at least 4x4 pixels, returns
    logits ``[batch, classes]``. ``width`` is a multiple of 8.

    It has group normalization (Wu, He 2018) instead of batch normalization. Each image is
    normalized alone, so several workers train the same model as one.
    """

    def __init__(self, in_channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.stem = _conv3x3(in_channels, width)
        self.norm = _norm(width)
        self.blocks = nn.Sequential(
            ConvolutionBlock(width, width),
            ConvolutionBlock(width, 2 * width, stride=2),
            ConvolutionBlock(2 * width, 4 * width, stride=2),
        )
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.blocks(functional.relu(self.norm(self.stem(images))))
        logits: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class ConvolutionBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them.

    Returns ``[batch, channels, height / stride, width / stride]``.
    """

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
        residual = functional.relu(self.norm1(self.conv1(x)))
        residual = self.norm2(self.conv2(residual))
        return functional.relu(residual + self.shortcut(x))


def _conv3x3(in_channels: int, channels: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(channels // 8, channels)  # groups of 8 channels


if __name__ == "__main__":
    run(main, DigitsOptions)
