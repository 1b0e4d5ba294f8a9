"""Image classification, task 1a: a ResNet on CIFAR-10 to 80 % validation accuracy.

Data: CIFAR-10's 50,000 training and 10,000 validation images of 32x32 pixels, each colour
normalized by its mean and deviation over the training images. Training images are shifted by up to
4 pixels either way and mirrored at random (He et al. 2015, section 4.2).
Model: ResNet-20, 32, 44 or 56, version 1 (He et al. 2015) or 2 (He et al. 2016).
Algorithm: synchronous SGD with momentum. Each worker takes 128 images a step, gradients are
averaged over all workers by all-reduce. Batch norm sees a worker's own images, and its running
statistics are averaged over the workers before each evaluation.
Hyper-parameters: those of He et al. 2015 for one worker: learning rate 0.1, divided by 10 after 82
and 123 of 164 epochs (32,000 and 48,000 of 64,000 steps), momentum 0.9, weight decay 0.0001. For
more workers the learning rate grows with the batch, over 5 epochs of warm-up (Goyal et al. 2017).
Goal: ``val_global_Prec@1`` of 80 % (light: 70 %), evaluated after each epoch.

He et al. report 91.25 % after all epochs with ResNet-20. No trial on CIFAR-10 itself was made with
this implementation: it has only been tried on small generated archives of the same format. On two
cores of an AMD EPYC (family 26) at 2.6 GHz it trains ResNet-20 on 790 images a second (720 to 950
in 7 trials), on 1,160 with bf16 (990 to 1,330).
"""

from dataclasses import dataclass

import torch

from mlbench import Tracker, names
from worker.data.cifar10 import CLASSES, load_cifar10
from worker.data.folder import datasets_folder
from worker.data.images import AugmentedBatches
from worker.models.cifar_resnet import CifarResNet, Depth, Version
from worker.training import options
from worker.training.checkpoint import Checkpoints
from worker.training.device import DeviceOptions, prepare
from worker.training.distributed import BackendOptions, join_world
from worker.training.entry import run
from worker.training.exchange import ExchangeOptions
from worker.training.loop import Trainer, evaluate, record_epoch, train_epoch
from worker.training.schedule import scale_linearly
from worker.training.sgd import MomentumOptions
from worker.training.together import prepare_together

# The batch that the learning rate is given for.
_REFERENCE_BATCH = 128
_WARMUP_EPOCHS = 5
_DECAY_EPOCHS = (82, 123)
_SHIFT = 4
_VALIDATION_BATCH = 500


@dataclass(frozen=True)
class Config(MomentumOptions, DeviceOptions, ExchangeOptions, BackendOptions):
    """Train a ResNet on CIFAR-10."""

    version: Version = 1
    """Of the architecture: 1 (2015), or 2 (2016, norm and activation before each convolution)."""
    depth: Depth = 20
    """Layers."""
    goal: float = 80.0
    epochs: int = 164
    worker_batch_size: int = 128
    """Images that each worker takes in a step."""
    learning_rate: float = 0.1
    """Step size for 128 images in a step over all workers; in proportion for more or fewer."""

    def rules(self) -> dict[str, bool]:
        """Return the rules of these options."""
        return super().rules() | {
            "--worker-batch-size must be at least 1": self.worker_batch_size >= 1,
        }


def main(config: Config) -> None:
    """Train until the goal is reached or the epochs are over."""
    with Tracker() as tracker, join_world(config.backend) as world:
        execution = prepare(config, world)
        tracker.goal(names.VAL_ACCURACY, config.goal)

        torch.manual_seed(config.seed)
        model = execution.place(CifarResNet(config.depth, config.version, CLASSES))

        data = prepare_together(world, lambda: load_cifar10(datasets_folder()))
        train = data.train.to(execution.device)
        validation = data.validation.shard(world).to(execution.device)
        batch_size = config.worker_batch_size * world.size
        if world.rank == 0:
            tracker.settings(
                options.as_settings(config)
                | execution.describe()
                | {
                    "batch_size": batch_size,
                    "data": "cifar10",
                    "data_sha256": data.sha256,
                    "data_is_standard": data.is_standard,
                }
            )
        print(
            f"{world}: {len(train)} images to train, {len(data.validation)} to validate, "
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
            scale_linearly(
                config.learning_rate,
                batch_size=batch_size,
                reference_batch=_REFERENCE_BATCH,
                epoch_steps=len(train) // batch_size,
                warmup_epochs=_WARMUP_EPOCHS,
                decay_epochs=_DECAY_EPOCHS,
            ),
            exchange=config,
            execution=execution,
            world=world,
            tracker=tracker,
        )
        checkpoints = Checkpoints.from_environ(world, trainer.parts)

        for epoch in range(checkpoints.restore(), config.epochs):
            tracker.epoch(epoch)
            batches = AugmentedBatches(
                train, batch_size, world, config.seed, epoch, shift=_SHIFT, flip=True
            )
            trained = train_epoch(trainer, batches)
            validated = evaluate(trainer, validation.batches(_VALIDATION_BATCH))
            record_epoch(trainer, epoch, trained, validated)
            if tracker.goal_reached:
                print(f"goal of {config.goal} % reached", flush=True)
                break
            if trainer.deadline.has_passed():
                break
            checkpoints.save(epoch + 1)


if __name__ == "__main__":
    run(main, Config)
