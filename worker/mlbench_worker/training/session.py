"""The session of a rank: its world, device, tracker, deadline, epochs and checkpoints."""

import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch

from mlbench import Tracker
from mlbench.benchmarks.options import Options
from mlbench.benchmarks.task_options import (
    BackendOptions,
    DeviceOptions,
    TrainingOptions,
    framework_of,
)
from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench.local.home import Home
from mlbench_worker.ranks.distributed import Execution, World, join_world, set_up
from mlbench_worker.training.checkpoint import Checkpoints, Plain, Stateful


@dataclass
class TrainingProgress(Plain):
    """The progress within an epoch, as a checkpoint contains it."""

    epoch: int = 0
    batches: int = 0
    """Number of batches of the epoch that are done."""
    kept: dict[str, Any] = field(default_factory=dict)
    """State of the batches done that the rest of the epoch needs, such as sums of their scores."""

    def done(self, kept: Mapping[str, Any]) -> None:
        """Count a batch, and replace the state that the rest of the epoch needs."""
        self.batches += 1
        self.kept = dict(kept)

    def end_epoch(self) -> None:
        """Begin the next epoch."""
        self.load_state_dict(vars(TrainingProgress(self.epoch + 1)))


@dataclass
class Session:
    """The world, device and tracker of one rank's task. Made by ``start``."""

    world: World
    tracker: Tracker
    execution: Execution
    deadline_at: float | None = None
    """End of the training, in Unix seconds by this machine's clock; None for no deadline.

    Either all ranks have one, or no rank has.
    """
    progress: TrainingProgress = field(default_factory=TrainingProgress)
    """Progress in the current epoch, the last one that ``epochs`` yielded."""
    at_exit: list[Callable[[], None]] = field(default_factory=list)
    """Functions to call once the task has succeeded."""
    _deadline_passed: bool = False
    _checkpoints: Checkpoints | None = None
    _checkpoint_steps: int = 0
    _saved_steps: int = 0

    @property
    def datasets(self) -> Path:
        """The folder of all data sets: $MLBENCH_DATASETS, or ``datasets`` in $MLBENCH_HOME."""
        folder = os.environ.get(names.ENV_DATASETS)
        return Path(folder).absolute() if folder else Home.from_environ().datasets

    def state_settings(self, config: Options, **facts: str | float | bool | None) -> None:
        """Record the options, the device and further facts of the run, on rank 0 only."""
        if self.world.rank == 0:
            self.tracker.settings(asdict(config) | self.execution.describe() | facts)

    def set_goal(self, config: TrainingOptions) -> None:
        """State the goal that the options have."""
        lower = config.lower_is_better
        self.tracker.goal(config.goal_metric, config.goal, lower_is_better=lower)

    def say(self, text: str) -> None:
        """Print which rank this is, a text, and the number of threads."""
        print(f"{self.world}: {text}, threads: {torch.get_num_threads()}", flush=True)

    def epochs(self, config: TrainingOptions, parts: Mapping[str, Stateful]) -> Iterator[int]:
        """Yield the epochs to train, until the goal or the deadline is reached, or all are done.

        The first epoch is the one of the newest checkpoint, with the batches in ``progress`` done.
        A checkpoint of ``parts``, the progress and the tracker is saved after each epoch but the
        last.
        """
        if folder := os.environ.get(names.ENV_CHECKPOINTS):  # the run may be restarted
            parts = {**parts, "progress": self.progress, "tracker": self.tracker}
            self._checkpoints = Checkpoints(Path(folder), self.world, parts)
            self._checkpoint_steps = config.checkpoint_steps
            with self.tracker.phase("restore"):
                self._saved_steps = self._checkpoints.restore()
            if not self._saved_steps and int(os.environ.get(names.ENV_ATTEMPT, "1")) > 1:
                self.tracker.log({names.RESTORED_STEP: 0})
        while (epoch := self.progress.epoch) < config.epochs:
            self.tracker.epoch(epoch)
            yield epoch
            if self.tracker.goal_reached:
                print(f"goal reached: {config.goal_metric} {config.goal:g}", flush=True)
                break
            if self.deadline_has_passed():
                break
            self.progress.end_epoch()
            self._save()

    def save_if_due(self) -> None:
        """Save a checkpoint every ``checkpoint_steps`` steps; call it before each step.

        It is not called between an epoch's last step and its evaluation, so checkpoints after
        equally many steps have the same state.
        """
        steps = self.tracker.steps
        if self._checkpoint_steps and steps % self._checkpoint_steps == 0:
            self._save()

    def _save(self) -> None:
        """Save a checkpoint, unless this step has one."""
        steps = self.tracker.steps
        if self._checkpoints is None or steps == self._saved_steps:
            return
        self._saved_steps = steps
        with self.tracker.phase("checkpoint"):
            size = self._checkpoints.save(steps)
        if size:
            self.tracker.checkpoint(size)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Record the time of a phase, including the work that it queued on the device."""
        with self.tracker.phase(phase):
            yield
            self.execution.synchronize()

    def deadline_has_passed(self) -> bool:
        """Return whether the deadline has passed on any rank: the same on every rank.

        All ranks must call it after the same step: with a deadline, it communicates.
        """
        if self.deadline_at is None or self._deadline_passed:
            return self._deadline_passed
        with self.tracker.phase("communication"):
            self._deadline_passed = self.world.total(time.time() >= self.deadline_at) > 0
        if self._deadline_passed:
            print("the deadline has passed: training ends", flush=True)
        return self._deadline_passed


@contextmanager
def start(config: BackendOptions) -> Iterator[Session]:
    """Join the other ranks and set up the device of the options, or else of the backend."""
    with Tracker() as tracker, join_world(config.backend) as world:
        device = DeviceOptions("cpu" if world.device.type == "cpu" else "cuda")
        if isinstance(config, DeviceOptions) and framework_of(config) == "torch":
            device = config
        deadline = os.environ.get(names.ENV_DEADLINE)
        deadline_at = float(deadline) if deadline else None
        session = Session(world, tracker, set_up(device, world), deadline_at)
        yield session
        for leave in session.at_exit:
            leave()


@dataclass(frozen=True)
class Sums:
    """Sums over samples. Means could not be combined: the ranks' shares differ in size."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, vars(self).values(), vars(other).values()))

    def over(self, world: World) -> Self:
        """Return the sums over all ranks, the same on each. Doubles add up counts exactly."""
        sums = torch.tensor(list(vars(self).values()), dtype=torch.float64, device=world.device)
        world.sum_(sums)
        return type(self)(*sums.tolist())
