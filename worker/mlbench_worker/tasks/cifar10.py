"""Image classification, task 1a: a ResNet on CIFAR-10 to 80 % validation accuracy.

Data: CIFAR-10's 50,000 training and 10,000 validation images of 32x32 pixels, each colour
normalized by its mean and deviation over the training images. Training images are shifted by up to
4 pixels either way and mirrored at random (He et al. 2015, section 4.2).
Model: ResNet-20, 32, 44 or 56, version 1 (He et al.: Deep Residual Learning for Image Recognition,
2015, section 4.2) or version 2 (He et al.: Identity Mappings in Deep Residual Networks, 2016).
Algorithm: synchronous SGD with momentum. Each worker takes 128 images a step, gradients are
averaged over all workers by all-reduce. Batch norm sees a worker's own images, and its running
statistics are averaged over the workers before each evaluation.
Hyper-parameters: momentum 0.9, weight decay 0.0001, and the learning rate of one of three recipes.

- he-2015: He et al. 2015 for one worker, 0.1, divided by 10 after 82 and 123 of 164 epochs (32,000
  and 48,000 of 64,000 steps). With more workers the learning rate grows with the batch, over 5
  epochs of warm-up (Goyal et al. 2017).
- mlbench-2020: MLBench's own task, in the repository mlbench-benchmarks since November 2020. The
  rate is 0.02 per worker, reached after log2(workers) epochs. It is halved, down to 0.02, when the
  validation loss does not fall. One worker trains at 0.02 throughout. MLBench's model also differs
  in its shortcuts, which are projections, and each of its workers keeps its own part of the images.
- one-cycle: Smith and Topin 2018. The rate rises from zero to 0.2 per worker and falls to zero
  again within 8 epochs: the shortest way to the goal.

Goal: ``val_global_Prec@1`` of 80 % (light: 70 %), evaluated after each epoch.

He et al. report 91.25 % after all epochs with ResNet-20. This implementation has not been tried on
the standard archive, nor over all epochs. On an archive made of JPEG files, two workers with
one-cycle and bf16 reach 80 % after 7 or 8 epochs (5 of 5 seeds), and one worker with mlbench-2020
after 20 (seed 1; both: docs/results.md). One worker with he-2015 and bf16 has 52, 61, 64, 70 and
73 % after the first five epochs (seed 1). ResNet-20 trains on 790 images a second on two cores of
an AMD EPYC (family 26) at 2.6 GHz (720 to 950 in 7 trials), on 1,160 with bf16 (990 to 1,330). On
two cores of an Intel Xeon without AMX it trains on 650 to 670, and on 470 with bf16.
"""

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import CIFAR10_SHA256, Cifar10Options, CifarDepth, CifarVersion
from mlbench_worker.data.cifar10 import CLASSES, load_cifar10
from mlbench_worker.data.images import augmented_batches
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.training import schedules
from mlbench_worker.training.frameworks import make_trainer, versions
from mlbench_worker.training.session import start

_REFERENCE_BATCH = 128
"""The batch size for which the learning rate is given."""


def main(config: Cifar10Options) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        session.set_goal(config)

        data = session.world.prepare(lambda: load_cifar10(session.datasets))
        train = data.train.to(session.execution.device)
        validation = data.validation.shard(session.world).to(session.execution.device)
        batch_size = config.worker_batch_size * session.world.size
        session.state_settings(
            config,
            **versions(config),
            batch_size=batch_size,
            data="cifar10",
            data_sha256=data.sha256,
            data_is_standard=data.sha256 == CIFAR10_SHA256,
            train_samples=len(train),
            validation_samples=len(data.validation),
        )
        session.say(f"{len(train)} images to train, {len(data.validation)} to validate")

        torch.manual_seed(config.seed)
        model = CifarResNet(config.depth, config.version)
        schedule = _schedule(config, session.world.size, len(train) // batch_size)
        trainer = make_trainer(session, config, model, schedule, train, batch_size)

        for epoch in session.epochs(config, trainer.parts):
            first = session.progress.batches
            batches = augmented_batches(
                train, batch_size, session.world, config.seed, epoch, first, shift=4, flip=True
            )
            trained = trainer.train(batches, batch_size)
            validated = trainer.evaluate(validation.batches(500))
            trainer.record(epoch, trained, validated)
            if isinstance(schedule, schedules.PlateauSchedule):
                schedule.epoch_ended(validated.loss)


def _schedule(config: Cifar10Options, workers: int, epoch_steps: int) -> schedules.Schedule:
    worker_rate = config.learning_rate * config.worker_batch_size / _REFERENCE_BATCH
    if config.recipe == "mlbench-2020":
        return schedules.PlateauSchedule(worker_rate, workers)
    if config.recipe == "one-cycle":
        return schedules.rise_and_fall(worker_rate * workers, config.epochs * epoch_steps)
    return schedules.scale_linearly(
        config.learning_rate,
        batch_size=config.worker_batch_size * workers,
        reference_batch=_REFERENCE_BATCH,
        epoch_steps=epoch_steps,
        warmup_epochs=5,
        decay_epochs=(82, 123),
    )


class CifarResNet(nn.Module):
    """Takes float images ``[batch, 3, 32, 32]``, returns logits ``[batch, classes]``.

    It has 6n + 2 layers: a convolution, three stages of n blocks with 16, 32 and 64 channels at
    32x32, 16x16 and 8x8 pixels, global average pooling, and a linear classifier. In version 2,
    batch norm and ReLU come before each convolution, and blocks are connected by the sum alone.
    ReLU and the sum work in place, which saves a third of the memory traffic and changes no number.
    """

    def __init__(
        self, depth: CifarDepth = 20, version: CifarVersion = 1, classes: int = CLASSES
    ) -> None:
        """Draw the weights from the normal distribution of He et al. 2015 (Delving Deep)."""
        super().__init__()
        blocks = (depth - 2) // 6
        block: type[BlockV1 | BlockV2]
        first: nn.Module
        self.last_norm: nn.Module | None
        if version == 1:
            block, first, self.last_norm = BlockV1, BlockV1(16, 16), None
        else:
            # The first block follows a ReLU already; the last sum is followed by none.
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
        x = functional.relu_(self.first_norm(self.stem(images)))
        x = self.stages(x)
        if self.last_norm is not None:
            x = functional.relu_(self.last_norm(x))
        logits: torch.Tensor = self.classifier(x.mean(dim=(2, 3)))
        return logits


class BlockV1(nn.Module):
    """Convolution, norm, ReLU, convolution, norm; the sum with the input; ReLU.

    Returns ``[batch, channels, height, width]``, half the size if the channels grow.
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(in_channels, channels)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual: torch.Tensor = functional.relu_(self.norm1(self.conv1(x)))
        residual = self.norm2(self.conv2(residual))
        residual += _shortcut(x, residual)
        return functional.relu_(residual)


class BlockV2(nn.Module):
    """Norm, ReLU, convolution, twice; the sum with the input.

    Returns ``[batch, channels, height, width]``, half the size if the channels grow.
    """

    def __init__(self, in_channels: int, channels: int, *, activated: bool = False) -> None:
        """``activated``: the input has been through norm and ReLU already."""
        super().__init__()
        self.norm1 = None if activated else nn.BatchNorm2d(in_channels)
        self.conv1 = _conv3x3(in_channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = x if self.norm1 is None else functional.relu_(self.norm1(x))
        residual: torch.Tensor = self.conv1(active)
        residual = self.conv2(functional.relu_(self.norm2(residual)))
        residual += _shortcut(x, residual)
        return residual


def _shortcut(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return the input in the shape of the residual, without parameters (option A of the paper).

    If the size halves, every second pixel is taken, and the new channels are zeros.
    """
    new_channels = residual.shape[1] - x.shape[1]
    if not new_channels:
        return x
    half = new_channels // 2
    return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))


def _conv3x3(in_channels: int, channels: int) -> nn.Conv2d:
    """Return a convolution that halves the size if the number of channels grows."""
    stride = 1 if in_channels == channels else 2
    return nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)


if __name__ == "__main__":
    run(main, Cifar10Options)
