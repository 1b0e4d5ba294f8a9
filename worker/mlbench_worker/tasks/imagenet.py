"""ImageNet: ResNet-50 to 75.9 % validation accuracy, on any number of workers.

Data: ImageNet's 1,281,167 training and 50,000 validation images of 1,000 classes (Russakovsky et
al. 2015), as JPEG files in ``$MLBENCH_DATASETS/imagenet/train/CLASS`` and ``…/val/CLASS``. Training
takes random crops of 8 to 100 % of an image, resized to 224x224 pixels and mirrored half of the
time. Validation takes the centre of each image, resized to 256 pixels on its shorter side.
Model: ResNet-50 (He et al. 2015), 25,557,032 parameters.
Algorithm: Goyal et al.: Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, 2017.
Synchronous SGD with Nesterov momentum 0.9 and 32 images per worker and step. The learning rate is
0.1 for 256 images per step over all workers, and in proportion for more or fewer. A rate above 0.1
is reached from 0.1 within the first 5 epochs. It falls to a tenth at epochs 30, 60 and 80 of 90.
Weight decay 0.0001, but not of biases and batch norm's parameters. Batch norm sees each worker's
own images; its running statistics are averaged before each evaluation.
Goal: ``val_global_Prec@1`` of 75.9 %, evaluated after each epoch.

With this algorithm Goyal et al. reach 76.40 % with 8 workers and 76.26 % with 256 (their table 1:
errors of 23.60 and 23.74 %, mean of 5 trials). This implementation has not been tried on ImageNet
itself, only on small generated data sets in the same layout. One core of an AMD EPYC (family 26) at
2.6 GHz trains on 5.9 images a second, on 10 with bf16, and loads 430 files of 500x375 pixels and
100 KB.
"""

import os

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import ImagenetOptions
from mlbench_worker.data.image_folder import check_same_everywhere, read_image_folder
from mlbench_worker.data.image_loader import Loading, training_batches, validation_batches
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.training.image_trainer import ImageTrainer
from mlbench_worker.training.schedules import scale_linearly
from mlbench_worker.training.session import start
from mlbench_worker.training.trainer import decay_weights_only

_EXPANSION = 4
"""Ratio of a block's output channels to the channels of its 3x3 convolution."""


def main(config: ImagenetOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        session.set_goal(config)

        data = session.world.prepare(lambda: read_image_folder(session.datasets / "imagenet"))
        check_same_everywhere(data, session.world)
        validation = data.validation.shard(session.world)
        batch_size = config.worker_batch_size * session.world.size
        processes = min(config.loaders, len(os.sched_getaffinity(0)))
        loading = Loading(config.image_size, processes, session.execution.device)
        session.state_settings(
            config,
            batch_size=batch_size,
            data="imagenet",
            data_sha256=data.listing_sha256,
            loading_processes=processes,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
            classes=len(data.classes),
        )
        session.say(
            f"{len(data.train)} images to train, {len(data.validation)} to validate, "
            f"loading processes: {processes}"
        )

        torch.manual_seed(config.seed)
        model = session.execution.place(ResNet50(len(data.classes)))
        optimizer = torch.optim.SGD(
            decay_weights_only(model, config.weight_decay),
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=True,
            fused=True,
        )
        schedule = scale_linearly(
            config.learning_rate,
            batch_size=batch_size,
            reference_batch=256,
            epoch_steps=len(data.train) // batch_size,
            warmup_epochs=5,
            decay_epochs=(30, 60, 80),
        )
        trainer = ImageTrainer(session, model, optimizer, schedule, exchange=config)

        for epoch in session.epochs(config, trainer.parts):
            first = session.progress.batches
            batches = training_batches(
                data.train, batch_size, session.world, config.seed, epoch, loading, first
            )
            trained = trainer.train(batches, batch_size)
            validated = trainer.evaluate(
                validation_batches(validation, config.worker_batch_size, loading)
            )
            trainer.record(epoch, trained, validated)


class ResNet50(nn.Module):
    """A stem, 16 bottleneck blocks in four stages, a classifier: 25,557,032 parameters.

    Takes float images ``[batch, 3, height, width]``, returns logits ``[batch, classes]``. Made for
    224x224 pixels; any size from 32x32 on works.

    The layers are those of He et al. 2015, table 1. As in Goyal et al. 2017, section 5.1, a block
    halves the image in its 3x3 convolution, and the scale of its last batch norm starts at 0, so
    that each block starts as its shortcut. ReLUs work in place, which saves memory.

    Convolutions are drawn from a normal distribution with a variance of 2 / (inputs of the backward
    pass per output) (He, Zhang, Ren, Sun: Delving Deep into Rectifiers, 2015).
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        # For each stage: width of the 3x3 convolutions, number of blocks, stride of the first.
        stages = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
        channels, blocks = 64, []
        for width, count, first_stride in stages:
            for stride in (first_stride, *[1] * (count - 1)):
                blocks.append(Bottleneck(channels, width, stride))
                channels = _EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            match module:
                case nn.Conv2d():
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                case nn.Linear():
                    nn.init.normal_(module.weight, std=0.01)
                    nn.init.zeros_(module.bias)
                case Bottleneck():
                    nn.init.zeros_(module.norm3.weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.blocks(self.stem(images))
        logits: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution, and a shortcut around them.

    Returns ``[batch, 4 * width, height / stride, width / stride]``.
    """

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
        residual = functional.relu(self.norm1(self.reduce(x)), inplace=True)
        residual = functional.relu(self.norm2(self.conv(residual)), inplace=True)
        residual = self.norm3(self.expand(residual))
        return functional.relu(residual.add_(self.shortcut(x)), inplace=True)


def _conv(in_channels: int, channels: int, kernel_size: int, stride: int = 1) -> nn.Conv2d:
    padding = kernel_size // 2
    return nn.Conv2d(in_channels, channels, kernel_size, stride, padding, bias=False)


if __name__ == "__main__":
    run(main, ImagenetOptions)
