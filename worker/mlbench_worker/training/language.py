"""Training of language models."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from mlbench.contract import names
from mlbench_worker.ranks.rank_process import DataError
from mlbench_worker.training.trainer import EvaluationScore, Trainer, TrainingOutcome


@dataclass(frozen=True)
class Rows:
    """Rows of text ``[rows, time]``, and the token that follows each: int64."""

    tokens: torch.Tensor
    following: torch.Tensor


@dataclass(frozen=True)
class TextScore(EvaluationScore):
    """How well a model predicts tokens."""

    trained: ClassVar = {names.TRAIN_PERPLEXITY: "perplexity"}
    validated: ClassVar = {names.VAL_PERPLEXITY: "perplexity"}

    @property
    def perplexity(self) -> float:
        """Perplexity: e to the mean loss, the number of equally likely tokens to guess from."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf

    def __str__(self) -> str:
        return f"perplexity {self.perplexity:.3f}"


class LanguageTrainer(Trainer[Rows, TextScore]):
    """Trains and evaluates a model that returns the logits of the tokens that follow."""

    nothing = TextScore()

    def place(self, batch: Rows) -> Rows:
        device = self.session.execution.device
        return Rows(*(part.to(device, torch.int64) for part in vars(batch).values()))

    def train(self, batches: Iterable[Rows], batch_size: int) -> TextScore:
        """Train on each batch; raise a DataError if a rank would have no row."""
        if batch_size < self.session.world.size:
            raise DataError(
                f"--batch-size must be at least {self.session.world.size}, a row for each worker "
                f"(not {batch_size})"
            )
        return super().train(batches, batch_size)

    def compute(self, model: nn.Module, batch: Rows) -> TrainingOutcome[TextScore]:
        return self.outcome(model(batch.tokens), batch.following, len(batch.tokens))

    @staticmethod
    def outcome(
        logits: torch.Tensor,
        following: torch.Tensor,
        rows: int,
        penalty: torch.Tensor | float = 0.0,
    ) -> TrainingOutcome[TextScore]:
        """Return the cross entropy of logits ``[…, n]`` for tokens ``[…]`` of ``rows`` rows.

        The penalty is added to the loss of each row, and left out of the score.
        """
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), following.flatten())
        tokens = following.numel()
        return TrainingOutcome(
            rows * (loss + penalty), lambda: TextScore(loss.item() * tokens, tokens)
        )
