"""MLPerf's logging: lines ``:::MLLOG {…}`` on stdout become values, goal, settings and epochs.

The keys are defined in github.com/mlcommons/logging. ``mlbench_sources.mllog`` writes such
lines.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from mlbench.contract import names
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTINGS
from mlbench.contract.reported_settings import is_setting
from mlbench_worker.agent.sources import Line

_MARK = b":::MLLOG "
_SETTINGS = {key: name for name, key in names.MLPERF_KEYS.items()}
_ACCURACY = "eval_accuracy"
_TARGETS = ("target_accuracy", "target_eval_accuracy", "target_quality")
_BENCHMARK = "submission_benchmark"
# Benchmarks by the direction of eval_accuracy, from the rules of MLPerf's compliance checker.
_HIGHER_IS_BETTER = (
    *("bert", "deepcam", "dlrm", "dlrm_dcnv2", "dlrmv4", "gnmt", "gnn", "minigo", "openfold"),
    *("qwen35_397b_grpo", "resnet", "retinanet", "rgat", "ssd", "transformer", "unet3d"),
)
_LOWER_IS_BETTER = (
    *("deepseekv3_671b", "flux1", "gpt3", "gpt_oss_20b", "llama2_70b_lora", "llama31_405b"),
    *("llama31_8b", "rnnt"),
)
DIRECTIONS: Mapping[object, bool] = {
    **dict.fromkeys(_HIGHER_IS_BETTER, False),
    **dict.fromkeys(_LOWER_IS_BETTER, True),
}
"""Whether a lower ``eval_accuracy`` is better, by ``submission_benchmark``."""
MAX_EVENT_LENGTH = 64 << 10
"""Maximum length of an event in bytes."""


class MLLog:
    """The state of the logging of one worker.

    As in MLPerf's rules, hyperparameters are the values logged before ``run_start``.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        """``say`` prints a message for the user."""
        self._say = say
        self._settings: dict[str, object] = {}
        self._benchmark: object = None
        # Time, value and direction of a target that is not recorded as a goal yet.
        self._target: tuple[float, object, object] | None = None
        self._began: float | None = None
        self._evaluating: float | None = None
        self._evaluated = 0.0
        self._first_epoch: float | None = None

    def lines(self, line: bytes) -> list[Line]:
        """Return the lines of the metrics file for a line of stdout.

        A malformed event becomes a line that the master stores as malformed.
        """
        lines: list[Line] = []
        for text in line.split(_MARK)[1:]:
            try:
                lines += self._event(text)
            except (ValueError, RecursionError, OverflowError):
                excerpt = (_MARK + text)[:200].decode(errors="replace")
                lines.append({"time": None, "text": excerpt})
        return lines

    def _event(self, text: bytes) -> list[Line]:
        """Return the lines for an event; [] if the text is not an object.

        Raises:
            ValueError, RecursionError, OverflowError: the object is not an event.
        """
        if not text.lstrip().startswith(b"{"):
            return []
        # Text after the object, such as a color code, is ignored.
        decoded = text[:MAX_EVENT_LENGTH].decode(errors="replace").lstrip()
        fields, _ = json.JSONDecoder().raw_decode(decoded)
        match fields:
            case {"time_ms": int() | float() as ms, "key": str(key)} if isfinite(ms):
                pass
            case _:
                raise ValueError("an event must have a key and a time in milliseconds")
        at, value, metadata = ms / 1000, fields.get("value"), fields.get("metadata")
        about: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
        if key in _TARGETS and _is_number(value):
            self._target = (at, value, about.get("lower_is_better"))
            return self._goal(is_last_chance=self._began is not None)
        if key == _BENCHMARK and isinstance(value, str):
            self._benchmark = value
        lines = self._goal(is_last_chance=key in ("run_start", _ACCURACY))
        if fields.get("event_type") in ("INTERVAL_START", "INTERVAL_END"):
            return lines + self._interval(key, at, about)
        if self._began is None and key != _ACCURACY:
            is_valid = is_setting(value) and 0 < len(key) <= MAX_METRIC_NAME_LENGTH
            if is_valid and value is not None and len(self._settings) < MAX_SETTINGS:
                self._settings[_SETTINGS.get(key, key)] = value
                lines.append({"time": at, "settings": dict(self._settings)})
            return lines
        named_values = value if isinstance(value, dict) else {key: value}
        values = {name: number for name, number in named_values.items() if _is_number(number)}
        if values:
            step = _first_number(about, ("step_num", "step", "global_step"))
            step_field = {} if step is None else {"step": step}
            totals = self._totals(at, about) if _ACCURACY in values else {}
            lines.append({"time": at, **step_field, "metrics": {**totals, **values}})
        return lines

    def _goal(self, *, is_last_chance: bool) -> list[Line]:
        """Return the goal for the target once its direction is known."""
        if self._target is None:
            return []
        at, value, lower = self._target
        if not isinstance(lower, bool):
            lower = DIRECTIONS.get(self._benchmark)
        if lower is None:
            if is_last_chance:
                self._target = None
                self._say(
                    f"mlbench: target_accuracy: cannot tell if lower or higher is better"
                    f" (got {_BENCHMARK} {self._benchmark!r}), so the run has no goal."
                    f" Log {_BENCHMARK} with the name of an MLPerf benchmark, or"
                    " target_accuracy with metadata={'lower_is_better': True} or False."
                )
            return []
        self._target = None
        return [
            {"time": at, "goal": {"metric": _ACCURACY, "value": value, "lower_is_better": lower}}
        ]

    def _interval(self, key: str, at: float, about: Mapping[str, Any]) -> list[Line]:
        match key:
            case "run_start":
                self._began, self._evaluated = at, 0.0
            case "eval_start":
                self._evaluating = at
            case "eval_stop":
                self._evaluated += at - (at if self._evaluating is None else self._evaluating)
                self._evaluating = None
            case "epoch_start" | "block_start":
                number = about.get("epoch_num", about.get("first_epoch_num"))
                if not _is_number(number):
                    return []
                if self._first_epoch is None:
                    self._first_epoch = number
                values = {names.EPOCH: number - self._first_epoch, **self._totals(at, about)}
                return [{"time": at, "metrics": values}]
            case "run_stop":
                status = about.get("status")
                status_field = {"run_status": status} if isinstance(status, str) else {}
                return [{"time": at, "metrics": {**status_field, **self._totals(at, about)}}]
        return []

    def _totals(self, at: float, about: Mapping[str, Any]) -> dict[str, object]:
        """Return the training time so far, without evaluation, and the samples if known."""
        samples = _first_number(about, ("samples_count", "trained_samples"))
        totals: dict[str, object] = {} if samples is None else {names.SAMPLES: samples}
        if self._began is not None:
            ended = at if self._evaluating is None else self._evaluating
            totals[names.TRAIN_SECONDS] = ended - self._began - self._evaluated
        return totals


def _first_number(fields: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((fields[key] for key in keys if _is_number(fields.get(key))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
