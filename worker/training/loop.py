"""The training loop: an epoch of synchronous steps, and an exact evaluation, each phase timed."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker
from worker.data.images import Images, ShiftedBatches
from worker.training.allreduce import FlatGradients
from worker.training.distributed import World

PERCENT = 100.0


@dataclass(frozen=True)
class Score:
    """How well a model does on a set of images."""

    loss: float
    """Mean cross entropy, in nats."""
    accuracy: float
    """Share of images whose likeliest class is the right one, in percent."""


def train_epoch(
    model: nn.Module,
    gradients: FlatGradients,
    optimizer: torch.optim.Optimizer,
    batches: ShiftedBatches,
    world: World,
    tracker: Tracker,
) -> Score:
    """Train on each batch, and return the score on this rank's images as each step found them.

    The gradient is that of the mean loss over the batch of all ranks. Each rank records the mean
    loss over its own images at each step.

    Raises:
        WorldError: a peer was lost.
    """
    model.train()
    loss_sum, correct, images = 0.0, 0.0, 0
    for step in range(len(batches)):
        with tracker.phase("data"):
            batch = batches[step]
        with tracker.phase("forward"):
            logits = model(batch.images)
            loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
        with tracker.phase("backward"):
            gradients.clear()
            (loss / batches.batch_size).backward()  # type: ignore[no-untyped-call]
        with tracker.phase("communication"):
            gradients.sum_over(world)
        with tracker.phase("optimizer"):
            optimizer.step()
        with tracker.phase("metrics"):
            batch_loss = loss.item()
            loss_sum += batch_loss
            correct += _correct(logits, batch.labels)
            images += len(batch)
            tracker.step(
                samples=len(batch),
                train_loss=batch_loss / len(batch),
                learning_rate=optimizer.param_groups[0]["lr"],
            )
    return Score(loss_sum / images, PERCENT * correct / images)


def evaluate(model: nn.Module, shard: Images, world: World, tracker: Tracker) -> Score:
    """Return the model's score on all ranks' shards together: the same on every rank.

    Raises:
        WorldError: a peer was lost.
    """
    with tracker.phase("evaluation"), torch.inference_mode():
        model.eval()
        logits = model(shard.images)
        loss = functional.cross_entropy(logits, shard.labels, reduction="sum").item()
        # Sums, not means: shards differ in length. Doubles count exactly.
        totals = torch.tensor(
            [loss, _correct(logits, shard.labels), len(shard)], dtype=torch.float64
        )
        world.sum_(totals)
        loss, correct, images = totals.tolist()
        return Score(loss / images, PERCENT * correct / images)


def _correct(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return (logits.argmax(dim=1) == labels).sum().item()
