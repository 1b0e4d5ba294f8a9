"""Keras: the steps of ``fit`` and the metrics of its epochs, on any backend."""

from collections.abc import Mapping
from typing import Any

import keras

from mlbench_callbacks.hooks import guarded
from mlbench_callbacks.recording import recording


@guarded
class MLBenchCallback(keras.callbacks.Callback):
    """Records steps, samples, the time of evaluation, and epochs with their metrics.

    Keras fetches data and computes a step in one function, so that has no phases.

    Args:
        samples: how many samples an epoch has on this rank, as Keras does not tell.
        goal: the metric whose value is the goal, such as ``("val_accuracy", 0.9)``.
        lower_is_better: of the goal's metric.
    """

    def __init__(
        self,
        samples: int = 0,
        goal: tuple[str, float] | None = None,
        *,
        lower_is_better: bool = False,
    ) -> None:
        super().__init__()
        self._samples = samples
        self._goal, self._lower_is_better = goal, lower_is_better
        self._begun: int | None = None
        self._counted = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Record the goal and the settings."""
        if self._goal is not None:
            recording().tracker.goal(*self._goal, lower_is_better=self._lower_is_better)
        optimizer = self.model.optimizer.get_config()
        chosen = {key: optimizer[key] for key in ("name", "learning_rate") if key in optimizer}
        settings = {"epochs": self.params["epochs"], "backend": keras.backend.backend()}
        recording().state(settings | {"optimizer": chosen})

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Record the epoch's number and the totals so far, or restore them after a restart."""
        if epoch and not recording().tracker.steps:
            recording().restore_totals(f"epoch {epoch}")
        recording().tracker.epoch(epoch)
        self._counted = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Count the steps before this one.

        A hook at the end of a step would make Keras wait for the GPU to get the loss.
        """
        self._count(batch)
        self._begun = batch

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin the evaluation."""
        self._count_last()
        recording().enter("evaluation")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Continue to time the evaluation."""
        recording().enter("evaluation")

    def on_test_end(self, logs: Any = None) -> None:
        """End the evaluation."""
        recording().enter(None)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the epoch's metrics."""
        self._count_last()
        recording().log(logs or {}, recording().tracker.steps)
        recording().save_totals(f"epoch {epoch + 1}")

    def on_train_end(self, logs: Any = None) -> None:
        """Record the totals."""
        recording().end()

    def _count(self, done: int) -> None:
        """Count the steps of the epoch up to a number, each with its share of the samples."""
        most = self.params["steps"]
        for step in range(self._counted, done):
            share = self._samples * (step + 1) // most - self._samples * step // most if most else 0
            recording().tracker.step(share)
        self._counted = max(done, self._counted)

    def _count_last(self) -> None:
        """Count the steps that have begun."""
        if self._begun is not None:
            most, done = self.params["steps"], self._begun + self.model.steps_per_execution
            if most is None and keras.backend.backend() != "torch":
                done = self._begun  # length of the data unknown: the last step had no batch
            self._count(min(done, most or done))
            self._begun = None
