"""PyTorch Lightning: recording of a Trainer's steps and logged values on every rank."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from mlbench_callbacks.hooks import guarded
from mlbench_callbacks.recording import (
    agent_hears_mlflow,
    count_samples,
    recording,
    script_has_a_tracker,
)

# A program uses one of the two packages; importing the other one too would take seconds.
_OLD, _NEW = "pytorch_lightning", "lightning.pytorch"
_package = _OLD if _OLD in sys.modules and _NEW not in sys.modules else _NEW
_Callback: Any = import_module(f"{_package}.callbacks").Callback
_DummyLogger: Any = import_module(f"{_package}.loggers.logger").DummyLogger

# Key of the totals in a checkpoint.
_TOTALS = "mlbench"


@guarded
class MLBenchLogger(_DummyLogger):
    """Records what ``self.log`` and ``log_dict`` log, with Lightning's step.

    All other methods of a logger do nothing, as in Lightning's DummyLogger.
    """

    def __init__(self, save_dir: str | None = None) -> None:
        super().__init__()
        self._save_dir = save_dir

    @property
    def save_dir(self) -> str | None:
        """The folder of checkpoints and logs, for callbacks that ask the first logger for it."""
        return self._save_dir

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record values."""
        # Lightning adds the epoch to all values; the callback records the start of each epoch.
        recording().log({name: v for name, v in metrics.items() if name != "epoch"}, step)

    def log_hyperparams(
        self, params: Mapping[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Record hyperparameters as settings of the run."""
        recording().state(vars(params) if isinstance(params, Namespace) else params)


@guarded
class MLBenchCallback(_Callback):
    """Records a Trainer's steps, samples, phases, epochs and goal, and adds an MLBenchLogger.

    It does nothing in a Trainer that has another one, or if the script has its own Tracker.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._samples = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Add an MLBenchLogger to a Trainer without one."""
        callbacks = trainer.callbacks
        first = next(callback for callback in callbacks if isinstance(callback, MLBenchCallback))
        if first is not self or script_has_a_tracker():
            self.mlbench_off = True
        elif not _records(trainer) and not (trainer.is_global_zero and _mlflow_records(trainer)):
            trainer.loggers = [*trainer.loggers, MLBenchLogger(trainer.default_root_dir)]
        if _records(trainer):
            for logger in trainer.loggers:
                recording().note_folder(getattr(logger, "log_dir", None))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Record the goal and the batch size, and start to time the data loading."""
        self._steps = trainer.global_step
        for stop in trainer.early_stopping_callbacks:
            if stop.stopping_threshold is not None:
                recording().tracker.goal(
                    stop.monitor, stop.stopping_threshold, lower_is_better=stop.mode == "min"
                )
        size = getattr(trainer.train_dataloader, "batch_size", None)
        if _records(trainer) and isinstance(size, int):
            ranks = trainer.world_size * trainer.accumulate_grad_batches
            recording().state({"batch_size": size * ranks})
        # Callbacks are not called when a batch is fetched, but Lightning's profiler is.
        start = trainer.profiler.start

        def note(action: str) -> None:
            if action.endswith(".train_dataloader_next"):
                recording().enter("data")
            start(action)

        trainer.profiler.start = note  # the wrapper is deleted at the end of the training

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Record the epoch's number and the totals so far."""
        recording().tracker.epoch(trainer.current_epoch)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin the forward pass: the batch has arrived on its device."""
        recording().enter("forward")

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Begin the backward pass."""
        recording().enter("backward")

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """Begin the optimizer phase, which includes gradient clipping."""
        recording().enter("optimizer")

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a step, unless gradients are only accumulated."""
        recording().enter(None)
        self._samples += count_samples(batch)
        if trainer.global_step != self._steps:
            recording().tracker.step(self._samples)
            self._steps, self._samples = trainer.global_step, 0

    def on_validation_batch_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Time the evaluation, except for Lightning's sanity check of a batch or two."""
        if not trainer.sanity_checking:
            recording().enter("evaluation")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End the phase between epochs, or after an evaluation, whose values are logged by now."""
        recording().enter(None)

    on_validation_start = on_test_start = on_test_batch_start = on_validation_batch_start
    on_test_end = on_train_epoch_end = on_validation_end

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the totals."""
        vars(trainer.profiler).pop("start", None)
        recording().end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the current phase."""
        vars(trainer.profiler).pop("start", None)
        recording().enter(None)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Add the totals to a checkpoint."""
        checkpoint[_TOTALS] = recording().tracker.state_dict()

    def on_load_checkpoint(
        self, trainer: Any, pl_module: Any, checkpoint: Mapping[str, Any]
    ) -> None:
        """Restore the totals from a checkpoint if the training resumes from it."""
        if trainer.state.fn == "fit" and _TOTALS in checkpoint:
            recording().tracker.load_state_dict(checkpoint[_TOTALS])


def _records(trainer: Any) -> bool:
    return any(isinstance(logger, MLBenchLogger) for logger in trainer.loggers)


def _mlflow_records(trainer: Any) -> bool:
    """Check that the agent receives the values and settings of the first rank from MLflow."""
    if not agent_hears_mlflow():
        return False
    mlflow = sys.modules.get("mlflow.utils.autologging_utils")
    return any(type(logger).__name__ == "MLFlowLogger" for logger in trainer.loggers) or (
        mlflow is not None and not mlflow.autologging_is_disabled("pytorch")
    )
