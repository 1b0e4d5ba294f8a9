"""The hyper-parameters that all training by SGD has, with their rules; a task sets the defaults."""

from dataclasses import dataclass

from worker.training.options import Options
from worker.training.scoring import PERCENT


@dataclass(frozen=True)
class TrainingOptions(Options):
    """When a training ends, and what it starts from."""

    goal: float = PERCENT
    """Validation accuracy in percent at which the training ends."""
    epochs: int = 1
    """Epochs after which the training ends short of the goal."""
    learning_rate: float = 0.1
    """Step size."""
    seed: int = 0
    """Start of all random numbers: the same seed on as many workers gives the same losses."""

    def rules(self) -> dict[str, bool]:
        """Return the rules of these options."""
        return super().rules() | {
            "--goal must be from 0 to 100": 0 <= self.goal <= PERCENT,
            "--epochs must be at least 1": self.epochs >= 1,
            "--learning-rate must be more than 0": 0 < self.learning_rate < float("inf"),
            "--seed must be from 0 to 4294967295": 0 <= self.seed < 2**32,
        }


@dataclass(frozen=True)
class MomentumOptions(TrainingOptions):
    """Those of SGD with momentum and weight decay."""

    momentum: float = 0.9
    """Share of the last update that the next one keeps."""
    weight_decay: float = 1e-4
    """Pull of all parameters towards zero."""

    def rules(self) -> dict[str, bool]:
        """Return the rules of these options."""
        return super().rules() | {
            "--momentum must be at least 0 and less than 1": 0 <= self.momentum < 1,
            "--weight-decay must be at least 0": 0 <= self.weight_decay < float("inf"),
        }
