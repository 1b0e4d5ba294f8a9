"""Training of image classifiers."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import nn
from torch.nn import functional

from mlbench.contract import names
from mlbench_worker.data.images import Images
from mlbench_worker.training.trainer import EvaluationScore, Trainer, TrainingOutcome


@dataclass(frozen=True)
class ImageScore(EvaluationScore):
    """How well a model classifies images: numbers of images whose class is among the likeliest."""

    trained: ClassVar = {names.TRAIN_ACCURACY: "accuracy"}
    validated: ClassVar = {names.VAL_ACCURACY: "accuracy", names.VAL_ACCURACY5: "accuracy5"}

    correct: float = 0.0
    correct5: float = 0.0

    @classmethod
    def of(cls, logits: torch.Tensor, labels: torch.Tensor, loss_sum: torch.Tensor) -> Self:
        """Return the score of one batch."""
        likeliest = logits.detach().topk(min(5, logits.shape[1]), dim=1).indices
        hits = (likeliest == labels[:, None]).sum(dim=0).tolist()
        return cls(loss_sum.item(), len(labels), hits[0], sum(hits))

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent."""
        return 100 * self.correct / self.samples

    @property
    def accuracy5(self) -> float:
        """Top-5 accuracy in percent."""
        return 100 * self.correct5 / self.samples

    def __str__(self) -> str:
        return f"accuracy {self.accuracy:.2f} %"


class ImageTrainer(Trainer[Images, ImageScore]):
    """Trains and evaluates an image classifier."""

    nothing = ImageScore()

    def place(self, batch: Images) -> Images:
        """Return a batch on the device, in its memory format."""
        execution = self.session.execution
        labels = batch.labels.to(execution.device, non_blocking=True)
        return replace(batch, images=execution.images(batch.images), labels=labels)

    def compute(self, model: nn.Module, batch: Images) -> TrainingOutcome[ImageScore]:
        """Return the cross entropy, and the number of images classified correctly."""
        logits = model(batch.images)
        loss = functional.cross_entropy(logits.float(), batch.labels, reduction="sum")
        return TrainingOutcome(loss, lambda: ImageScore.of(logits, batch.labels, loss))
