"""Shared tracker of all integrations in one process."""

import json
import os
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contract import names
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTING_LENGTH, MAX_SETTINGS
from mlbench.contract.names import Phase
from mlbench.contract.reported_settings import Setting, is_setting
from mlbench.contract.series import storable_text
from mlbench.tracking.recorder import Value, check_name, list_own, to_float
from mlbench.tracking.tracker import Tracker

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Recording:
    """A tracker, the current phase of the training, and the settings reported so far.

    Phases are timed on the host: nothing waits for a GPU.
    """

    def __init__(self) -> None:
        self.tracker = Tracker()
        self._open: AbstractContextManager[None] | None = None
        self._settings: dict[str, Setting] = {}
        self._noted: set[str] = set()

    def enter(self, phase: Phase | None) -> None:
        """End the current phase, and begin another one unless ``phase`` is None."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open = None if phase is None else self.tracker.phase(phase)
        if self._open is not None:
            self._open.__enter__()

    def log(self, values: Mapping[str, object], step: int | None) -> None:
        """Record the numbers and strings among the values; libraries also log other types."""
        recorded: dict[str, Value] = {}
        for name, value in values.items():
            with suppress(TypeError, ValueError):
                check_name(name)
                text = storable_text(value) if isinstance(value, str) else None
                recorded[name] = to_float(value) if text is None else text  # type: ignore[arg-type]
        if recorded:
            self._note(recorded.keys() - self._noted)
            self.tracker.log(recorded, step=step)

    def state(self, settings: Mapping[str, object]) -> None:
        """Report more settings from the first rank; nested ones are named ``outer/inner``."""
        if os.environ.get("RANK", "0") != "0":
            return
        self._settings |= _flat(settings)
        self.tracker.settings(dict(list(self._settings.items())[:MAX_SETTINGS]))

    def note_folder(self, folder: object) -> None:
        """Tell the agent about a folder to which another logger writes the same values."""
        if isinstance(folder, str):
            self._note({f"\0{Path(folder).resolve()}"} - self._noted)

    def _note(self, new: Set[str]) -> None:
        """Tell the agent the names recorded here, because TensorBoard files may repeat them."""
        if not new or names.ENV_METRICS_FILE not in os.environ:
            return
        path = Path(os.environ[names.ENV_METRICS_FILE])
        list_own(path, new if self._noted else {names.EPOCH, *new})
        self._noted |= new

    def save_totals(self, place: str) -> None:
        """Save the tracker's totals for a checkpoint of a library, such as ``epoch 3``.

        Totals are saved only in a run that may be restarted: a restarted process of the same rank
        restores them.
        """
        if path := _totals_path(place):
            path.write_text(json.dumps(self.tracker.state_dict()))

    def restore_totals(self, place: str) -> None:
        """Restore the totals of the checkpoint from which a library resumes, if they were saved."""
        path = _totals_path(place)
        if path and path.exists():
            self.tracker.load_state_dict(json.loads(path.read_text()))

    def end(self) -> None:
        """Record the totals and stop the clock: later work, such as a test, is not training."""
        self.enter(None)
        self.tracker.pause()


@cache
def recording() -> Recording:
    """Return the process's recording."""
    return Recording()


def _totals_path(place: str) -> Path | None:
    """Return the file for this rank's totals at a checkpoint; None in a run without restarts."""
    folder = os.environ.get(names.ENV_CHECKPOINTS)
    rank = os.environ.get("RANK", "0")
    return Path(folder, f"mlbench-totals-{rank}-{place}.json") if folder else None


def script_has_a_tracker() -> bool:
    """Return whether the script has its own Tracker, which decides what is recorded."""
    return any(tracker is not recording().tracker for tracker in Tracker.active)


def agent_hears_mlflow() -> bool:
    """Return whether MLflow's clients log to the run's agent, which records their values."""
    return os.environ.get("MLFLOW_TRACKING_URI", "").startswith("http://mlbench:")


def count_samples(batch: object) -> int:
    """Return the length of the first array in a nested batch; 0 without arrays."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if isinstance(batch, Mapping):
        return next(filter(None, map(count_samples, batch.values())), 0)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return next(filter(None, map(count_samples, batch)), len(batch))
    return 0


def _flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, Setting]:
    flat: dict[str, Setting] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"[:MAX_METRIC_NAME_LENGTH]
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{key}/")
        else:
            flat[key] = value if is_setting(value) else str(value)[:MAX_SETTING_LENGTH]
    return flat
