"""NT-ASGD: SGD that averages its weights once the validation stops getting better.

Merity, Keskar, Socher: Regularizing and Optimizing LSTM Language Models, 2018, algorithm 1.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_PATIENCE = 5
"""Number of epochs without a new best loss before averaging begins: the paper's n."""


class NtAsgd(torch.optim.SGD):
    """SGD that, once triggered, also computes the mean of the weights after each step.

    Its whole state is in ``state_dict``, and so in checkpoints.
    """

    def __init__(self, params: Iterable[nn.Parameter], weight_decay: float) -> None:
        super().__init__(params, weight_decay=weight_decay)
        self._group.update(losses=[], averaged=None)

    @property
    def averaging(self) -> bool:
        """Whether averaging has been triggered."""
        return self._group["averaged"] is not None

    def observe(self, loss: float) -> None:
        """Note the validation loss of an epoch.

        Trigger averaging if it exceeds the lowest loss of all but the last ``_PATIENCE`` epochs.
        """
        losses = self._group["losses"]
        if not self.averaging and loss > min(losses[:-_PATIENCE], default=float("inf")):
            self._group["averaged"] = 0
        losses.append(loss)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take a step, and add the weights to the mean."""
        loss = super().step(closure)
        if self.averaging:
            self._group["averaged"] += 1
            for weight in self._group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.lerp_(weight, 1 / self._group["averaged"])
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Replace the parameters by their means, if there are any, inside the context."""
        weights = [weight for weight in self._group["params"] if "mean" in self.state[weight]]
        originals = [weight.data for weight in weights]
        try:
            for weight in weights:
                weight.data = self.state[weight]["mean"]
            yield
        finally:
            for weight, data in zip(weights, originals, strict=True):
                weight.data = data

    @property
    def _group(self) -> dict[str, Any]:
        (group,) = self.param_groups
        return group
