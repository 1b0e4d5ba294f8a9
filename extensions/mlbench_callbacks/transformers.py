"""Records phases and logged metrics of Hugging Face's Trainer, on every rank.

Importing this module lets a Trainer take ``report_to="mlbench"``. In a run, a Trainer
needs neither, because it reports by default (``extensions/mlbench_sources/hook``).
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import integration_utils
from transformers.trainer_callback import CallbackHandler

from mlbench.contract.names import Phase
from mlbench_callbacks.hooks import guarded
from mlbench_callbacks.recording import (
    agent_hears_mlflow,
    count_samples,
    recording,
    script_has_a_tracker,
)


@guarded
class MLBenchCallback(TrainerCallback):
    """Records a Trainer's steps, samples, phases, epochs and logged values.

    Args:
        goal: the metric whose value is the goal, such as ``("eval_accuracy", 0.9)``.
        lower_is_better: whether lower values of the goal's metric are better.
    """

    def __init__(
        self, goal: tuple[str, float] | None = None, *, lower_is_better: bool = False
    ) -> None:
        self._goal, self._lower_is_better = goal, lower_is_better
        self._samples = 0
        self._hooks: list[Any] = []

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Record settings and goal, restore the totals of a resumed step, and hook the model."""
        if state.global_step:
            recording().restore_totals(f"step {state.global_step}")
        if self._goal is not None:
            recording().tracker.goal(*self._goal, lower_is_better=self._lower_is_better)
        # Only arguments that differ from the library's defaults are settings of the run.
        arguments = args.to_sanitized_dict()  # without tokens
        settings = {
            field.name: arguments[field.name]
            for field in fields(args)
            if field.name in arguments.keys() - {"report_to"}
            and getattr(args, field.name) not in (field.default, [], {})
        }
        settings["batch_size"] = _step_size(args) * args.world_size
        recording().state(settings)
        # torch.compile would compile the hooks, too, and the model's copies on several GPUs would
        # share them.
        if not args.torch_compile and args.n_gpu <= 1:
            self._hooks = [
                model.register_forward_pre_hook(self.before_forward, with_kwargs=True),
                model.register_forward_hook(self.after_forward),
            ]

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the epoch's number and the totals so far."""
        recording().tracker.epoch(round(state.epoch or 0))
        recording().enter("data")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the current phase; the hooks of the model begin the next one."""
        recording().enter(None)

    on_substep_end = on_optimizer_step = on_step_begin

    def before_forward(self, model: Any, args: Any, inputs: Mapping[str, Any]) -> None:
        """Begin the forward pass, and count its samples."""
        if model.training:
            recording().enter("forward")
            self._samples += count_samples([*args, inputs])

    def after_forward(self, model: Any, args: Any, output: Any) -> None:
        """Begin the backward pass, which follows immediately."""
        if model.training:
            recording().enter("backward")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the optimizer phase."""
        recording().enter("optimizer")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a step."""
        recording().tracker.step(self._samples if self._hooks else _step_size(args))
        self._samples = 0
        recording().enter(_next(control))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Record the logged values."""
        # Transformers logs a fractional epoch. MLBench records whole epochs, at their start.
        values = {name: value for name, value in (logs or {}).items() if name != "epoch"}
        recording().log(values, state.global_step)
        recording().enter(_next(control))

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Continue to time the evaluation."""
        recording().enter("evaluation")

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the evaluation, whose values are logged by now."""
        recording().enter(_next(control))

    on_epoch_end = on_evaluate

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the totals with the Trainer's checkpoint."""
        recording().save_totals(f"step {state.global_step}")
        recording().enter(_next(control))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the totals."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        recording().end()


@guarded
class DefaultCallback(MLBenchCallback):
    """Records a Trainer if its script sets no ``report_to`` and has no Tracker."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Turn off if the script has its own Tracker."""
        if script_has_a_tracker():
            self.mlbench_off = True
        else:
            super().on_train_begin(args, state, control, model, **kwargs)


def _next(control: Any) -> Phase | None:
    """Return the phase after a step: the due logging or evaluation, or else data loading."""
    if control.should_log:
        return "metrics"
    if control.should_evaluate:
        return "evaluation"
    return None if control.should_save else "data"


def _step_size(args: Any) -> int:
    return int(args.train_batch_size * args.gradient_accumulation_steps)


_add_callback = CallbackHandler.add_callback


@wraps(_add_callback)
def _add_instead_of_default(self: CallbackHandler, callback: Any) -> None:
    """Add a callback; MLBenchCallback replaces the default, as does MLflow in a run."""
    kind = callback if isinstance(callback, type) else type(callback)
    heard = integration_utils.MLflowCallback if agent_hears_mlflow() else MLBenchCallback
    if issubclass(kind, MLBenchCallback | heard):
        self.remove_callback(DefaultCallback)
    _add_callback(self, callback)


integration_utils.INTEGRATION_TO_CALLBACK["mlbench"] = MLBenchCallback
CallbackHandler.add_callback = _add_instead_of_default
