"""Handwritten digits: a small ResNet to 97 % validation accuracy, on any number of workers.

Task: the 1,797 digits of 8x8 pixels that ship with scikit-learn. Every fifth of each digit, 364 in
all, is for validation; the 1,433 others, shifted by up to a pixel either way, are trained on.
Model: ResNet-8 (He et al. 2015) with group normalization, 308,074 parameters.
Algorithm: synchronous SGD with momentum. A step's 128 images are shared out to the workers, and
their gradients are summed by all-reduce: any number of workers trains the same model, up to
rounding. Learning rate 0.05, momentum 0.9, weight decay 0.0005, all constant.
Goal: ``val_global_Prec@1`` of 97 %, evaluated after each epoch of 11 steps.

Measured with seeds 0 to 11, one thread a worker, all workers of a run on the same two cores of an
AMD EPYC (family 26) at 2.6 GHz that had other work too; PyTorch 2.13, gloo. All 36 trials reach the
goal. Median, with the range:

    workers   epochs       seconds of training
    1         9.5 (7..14)  3.0 (2.1..4.8)
    2         9.5 (7..14)  3.4 (1.9..6.0)
    4         11 (7..13)   5.8 (4.1..11.0)
"""

from dataclasses import dataclass

import torch

from mlbench import Tracker, names
from worker.data.digits import CLASSES, TRAIN_IMAGES, load_digits
from worker.data.images import AugmentedBatches
from worker.models.digits_resnet import ResNet8
from worker.training import options
from worker.training.checkpoint import Checkpoints
from worker.training.device import DeviceOptions, prepare
from worker.training.distributed import BackendOptions, join_world
from worker.training.entry import run
from worker.training.exchange import ExchangeOptions
from worker.training.loop import Trainer, evaluate, record_epoch, train_epoch
from worker.training.schedule import Constant
from worker.training.sgd import MomentumOptions


@dataclass(frozen=True)
class Config(MomentumOptions, DeviceOptions, ExchangeOptions, BackendOptions):
    """Train a small ResNet on handwritten digits."""

    goal: float = 97.0
    epochs: int = 30
    batch_size: int = 128
    """Images in a step, shared out to the workers: the same for any number of them."""
    learning_rate: float = 0.05
    """Step size of the optimizer, constant."""
    weight_decay: float = 5e-4

    def rules(self) -> dict[str, bool]:
        """Return the rules of these options."""
        return super().rules() | {
            f"--batch-size must be from 1 to {TRAIN_IMAGES}": (
                1 <= self.batch_size <= TRAIN_IMAGES
            ),
        }


def main(config: Config) -> None:
    """Train until the goal is reached or the epochs are over."""
    with Tracker() as tracker, join_world(config.backend) as world:
        execution = prepare(config, world)
        tracker.goal(names.VAL_ACCURACY, config.goal)

        torch.manual_seed(config.seed)
        model = execution.place(ResNet8(in_channels=1, classes=CLASSES, width=32))

        data = load_digits()
        train = data.train.to(execution.device)
        validation = data.validation.shard(world).to(execution.device)
        if world.rank == 0:
            tracker.settings(
                options.as_settings(config)
                | execution.describe()
                | {"data": "digits", "data_sha256": data.sha256}
            )
        print(
            f"{world}: {len(data.train)} images to train, {len(data.validation)} to validate, "
            f"threads: {torch.get_num_threads()}",
            flush=True,
        )

        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
        trainer = Trainer.make(
            model,
            optimizer,
            Constant(config.learning_rate),
            exchange=config,
            execution=execution,
            world=world,
            tracker=tracker,
        )
        checkpoints = Checkpoints.from_environ(world, trainer.parts)

        for epoch in range(checkpoints.restore(), config.epochs):
            tracker.epoch(epoch)
            trained = train_epoch(
                trainer,
                AugmentedBatches(
                    train, config.batch_size, world, config.seed, epoch, shift=1, flip=False
                ),
            )
            validated = evaluate(trainer, [validation])
            record_epoch(trainer, epoch, trained, validated)
            if tracker.goal_reached:
                print(f"goal of {config.goal} % reached", flush=True)
                break
            if trainer.deadline.has_passed():
                break
            checkpoints.save(epoch + 1)


if __name__ == "__main__":
    run(main, Config)
