"""ImageNet: ResNet-50 to 75.9 % validation accuracy, on any number of workers.

Task: ImageNet's 1,281,167 training and 50,000 validation images of 1,000 classes (Russakovsky et
al. 2015), as JPEG files in ``$MLBENCH_DATASETS/imagenet/train/CLASS`` and ``…/val/CLASS``. Trained
on are random crops of 8 to 100 % of an image, resized to 224x224 pixels and mirrored half of the
time; validated is the centre of each image resized to 256 pixels on its shorter side.
Model: ResNet-50 (He et al. 2015), 25,557,032 parameters.
Algorithm: Goyal et al.: Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour, 2017.
Synchronous SGD with Nesterov momentum 0.9 and 32 images for each worker in a step. The learning
rate is 0.1 for 256 images in a step over all workers, and in proportion for more or fewer; if that
is more than 0.1, it rises to it from 0.1 within the first 5 epochs. It falls to a tenth at epochs
30, 60 and 80 of 90. Weight decay 0.0001, but not of biases and batch norm's parameters. Batch norm
looks at each worker's own images; its running statistics are averaged before each evaluation.
Goal: ``val_global_Prec@1`` of 75.9 %, evaluated after each epoch.

With this algorithm Goyal et al. reach 76.40 % with 8 workers and 76.26 % with 256 (their table 1:
errors of 23.60 and 23.74 %, in the mean of 5 trials). No trial on ImageNet itself was made with
this implementation: it has only been tried on small generated data sets in the same layout. One
core of an AMD EPYC (family 26) at 2.6 GHz trains on 5.9 images a second, on 10 with bf16, and
loads 430: files of 500x375 pixels and 100 KB.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mlbench import Tracker, names
from worker.data.folder import datasets_folder
from worker.data.image_folder import check_same_everywhere, read_image_folder
from worker.data.image_loader import Loading, TrainingBatches, ValidationBatches, loading_processes
from worker.models.resnet50 import ResNet50
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

# The images in a step that the learning rate is given for.
_REFERENCE_BATCH = 256
_WARMUP_EPOCHS = 5
_DECAY_EPOCHS = (30, 60, 80)


@dataclass(frozen=True)
class Config(MomentumOptions, DeviceOptions, ExchangeOptions, BackendOptions):
    """Train ResNet-50 on ImageNet."""

    goal: float = 75.9
    epochs: int = 90
    worker_batch_size: int = 32
    """Images in a step for each worker: more workers make a larger step."""
    learning_rate: float = 0.1
    """Step size of the optimizer for 256 images in a step; in proportion for more or fewer."""
    momentum: float = 0.9
    """Share of the last update that the next one keeps (Nesterov)."""
    weight_decay: float = 1e-4
    """Pull of the weights towards zero; biases and batch norm's parameters are left alone."""
    image_size: int = 224
    """Width and height that images are brought to, in pixels."""
    loaders: int = 8
    """Processes of each worker that load images, at most one for each of its cores; 0: none."""

    def rules(self) -> dict[str, bool]:
        """Return the rules of these options."""
        return super().rules() | {
            "--worker-batch-size must be at least 1": self.worker_batch_size >= 1,
            # Nesterov's is none without momentum.
            "--momentum must be more than 0 and less than 1": 0 < self.momentum < 1,
            # Five times halved, there must be a pixel left.
            "--image-size must be at least 32": self.image_size >= 32,  # noqa: PLR2004
            "--loaders must be at least 0": self.loaders >= 0,
        }


def main(config: Config) -> None:
    """Train until the goal is reached or the epochs are over."""
    with Tracker() as tracker, join_world(config.backend) as world:
        execution = prepare(config, world)
        tracker.goal(names.VAL_ACCURACY, config.goal)
        data = prepare_together(world, lambda: read_image_folder(datasets_folder() / "imagenet"))
        check_same_everywhere(data, world)
        validation = data.validation.shard(world)
        batch_size = config.worker_batch_size * world.size
        loading = Loading(config.image_size, loading_processes(config.loaders), execution.device)
        if world.rank == 0:
            tracker.settings(
                options.as_settings(config)
                | execution.describe()
                | {
                    "batch_size": batch_size,
                    "data": "imagenet",
                    "data_sha256": data.listing_sha256,
                    "loading_processes": loading.processes,
                    "train_images": len(data.train),
                    "validation_images": len(data.validation),
                    "classes": len(data.classes),
                }
            )
        print(
            f"{world}: {len(data.train)} images to train, {len(data.validation)} to validate, "
            f"threads: {torch.get_num_threads()}, loading processes: {loading.processes}",
            flush=True,
        )

        torch.manual_seed(config.seed)
        model = execution.place(ResNet50(len(data.classes)))
        optimizer = torch.optim.SGD(
            decay_weights_only(model, config.weight_decay),
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=True,
            fused=True,
        )
        trainer = Trainer.make(
            model,
            optimizer,
            scale_linearly(
                config.learning_rate,
                batch_size=batch_size,
                reference_batch=_REFERENCE_BATCH,
                epoch_steps=len(data.train) // batch_size,
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
            batches = TrainingBatches(data.train, batch_size, world, config.seed, epoch, loading)
            trained = train_epoch(trainer, batches)
            validated = evaluate(
                trainer, ValidationBatches(validation, config.worker_batch_size, loading)
            )
            record_epoch(trainer, epoch, trained, validated)
            if tracker.goal_reached:
                print(f"goal of {config.goal} % reached", flush=True)
                break
            if trainer.deadline.has_passed():
                break
            checkpoints.save(epoch + 1)


def decay_weights_only(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups: weights decay, biases and batch norm's do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


if __name__ == "__main__":
    run(main, Config)
