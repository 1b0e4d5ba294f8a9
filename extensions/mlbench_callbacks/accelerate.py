"""Hugging Face accelerate: values that a script logs through its Accelerator, on every rank."""

from collections.abc import Mapping
from functools import wraps
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

from mlbench.tracking.tracker import Tracker
from mlbench_callbacks.hooks import guarded
from mlbench_callbacks.recording import recording


@guarded
class MLBenchTracker(GeneralTracker):
    """Records what ``accelerator.log`` logs: ``Accelerator(log_with=MLBenchTracker())``.

    Its ``tracker`` is an ``mlbench.Tracker``, for steps, phases and the goal.
    """

    name = "mlbench"
    requires_logging_directory = False
    main_process_only = False

    @property
    def tracker(self) -> Tracker:
        """The tracker of this process."""
        return recording().tracker

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Record the configuration passed to ``init_trackers`` as settings of the run."""
        recording().state(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        recording().log(values, step)

    def finish(self) -> None:
        recording().end()


_log = Accelerator.log


# Without this wrapper, ``Accelerator.log`` logs nothing on ranks other than the first.
@wraps(_log)
def _log_on_every_rank(
    self: Any, values: Any, step: int | None = None, *args: Any, **kw: Any
) -> None:
    if any(isinstance(tracker, MLBenchTracker) for tracker in self.trackers):
        for tracker in self.trackers:
            recording().note_folder(getattr(tracker, "logging_dir", None))
    _log(self, values, step, *args, **kw)
    if not self.is_main_process:
        for tracker in self.log_with:
            if isinstance(tracker, MLBenchTracker):
                tracker.log(values, step)


Accelerator.log = _log_on_every_rank
