"""MLPerf's logging: lines ``:::MLLOG {…}`` on stdout become values, goal, settings and epochs.

github.com/mlcommons/logging has the keys; ``mlbench.evaluation.mllog`` writes such lines.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from mlbench.contract import names
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTINGS
from mlbench.contract.stated import is_setting
from mlbench_worker.agent.files import open_regular

Line = dict[str, object]

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
_SAMPLES = ("samples_count", "trained_samples")
_STEPS = ("step_num", "step", "global_step")
# Of stdout at once, and of a line.
_PIECE_BYTES = 1 << 20
_LONGEST_LINE = 64 << 10
_SHOWN_BYTES = 200


class MLLog:
    """What the lines of one worker say so far.

    As in MLPerf's rules, hyperparameters are what is logged before ``run_start``.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        """Begin; ``say`` writes a sentence for the user to stderr."""
        self._say = say
        self._settings: dict[str, object] = {}
        self._benchmark: object = None
        # Time, value and direction of a target whose goal is not recorded yet.
        self._target: tuple[float, object, object] | None = None
        self._began: float | None = None
        self._evaluating: float | None = None
        self._evaluated = 0.0
        self._first_epoch: float | None = None

    def lines(self, line: bytes) -> list[Line]:
        """Return the lines of the metrics file that a line of stdout makes.

        An event that cannot be read becomes a line that the master keeps as malformed.
        """
        lines: list[Line] = []
        for text in line.split(_MARK)[1:]:
            try:
                lines += self._event(text)
            except (ValueError, RecursionError, OverflowError):
                shown = (_MARK + text)[:_SHOWN_BYTES].decode(errors="replace")
                lines.append({"time": None, "text": shown})
        return lines

    def _event(self, text: bytes) -> list[Line]:
        """Return the lines of an event; none if the text is not an object.

        Raises:
            ValueError, RecursionError, OverflowError: it is not an event.
        """
        if not text.lstrip().startswith(b"{"):
            return []
        # Whatever follows the object, such as a color code, is ignored.
        decoded = text[:_LONGEST_LINE].decode(errors="replace").lstrip()
        fields, _ = json.JSONDecoder().raw_decode(decoded)
        match fields:
            case {"time_ms": int() | float() as ms, "key": str(key)} if isfinite(ms):
                pass
            case _:
                raise ValueError("an event has a key and a time in milliseconds")
        at, value, metadata = ms / 1000, fields.get("value"), fields.get("metadata")
        its: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
        if key in _TARGETS and _is_number(value):
            self._target = (at, value, its.get("lower_is_better"))
            return self._goal(is_last_chance=self._began is not None)
        if key == _BENCHMARK and isinstance(value, str):
            self._benchmark = value
        is_last_chance = key in ("run_start", _ACCURACY)
        return [*self._goal(is_last_chance=is_last_chance), *self._other(fields, key, at, its)]

    def _goal(self, *, is_last_chance: bool) -> list[Line]:
        """Return the goal of the target once its direction is known."""
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

    def _other(
        self, fields: Mapping[str, Any], key: str, at: float, its: Mapping[str, Any]
    ) -> list[Line]:
        value = fields.get("value")
        if fields.get("event_type") in ("INTERVAL_START", "INTERVAL_END"):
            return self._interval(key, at, its)
        if self._began is None and key != _ACCURACY:
            return self._setting(key, at, value)
        return self._values(key, at, value, its)

    def _interval(self, key: str, at: float, its: Mapping[str, Any]) -> list[Line]:
        match key:
            case "run_start":
                self._began, self._evaluated = at, 0.0
            case "eval_start":
                self._evaluating = at
            case "eval_stop":
                self._evaluated += at - (at if self._evaluating is None else self._evaluating)
                self._evaluating = None
            case "epoch_start" | "block_start":
                number = its.get("epoch_num", its.get("first_epoch_num"))
                if not _is_number(number):
                    return []
                if self._first_epoch is None:
                    self._first_epoch = number
                values = {names.EPOCH: number - self._first_epoch, **self._totals(at, its)}
                return [{"time": at, "metrics": values}]
            case "run_stop":
                status = its.get("status")
                status_field = {"run_status": status} if isinstance(status, str) else {}
                return [{"time": at, "metrics": {**status_field, **self._totals(at, its)}}]
        return []

    def _setting(self, key: str, at: float, value: object) -> list[Line]:
        if not is_setting(value) or value is None or not 0 < len(key) <= MAX_METRIC_NAME_LENGTH:
            return []
        if len(self._settings) >= MAX_SETTINGS:
            return []
        self._settings[_SETTINGS.get(key, key)] = value
        return [{"time": at, "settings": dict(self._settings)}]

    def _values(self, key: str, at: float, value: object, its: Mapping[str, Any]) -> list[Line]:
        found = value if isinstance(value, dict) else {key: value}
        values = {name: one for name, one in found.items() if _is_number(one)}
        if not values:
            return []
        step = _first_number(its, _STEPS)
        which = {} if step is None else {"step": step}
        totals = self._totals(at, its) if _ACCURACY in values else {}
        return [{"time": at, **which, "metrics": {**totals, **values}}]

    def _totals(self, at: float, its: Mapping[str, Any]) -> dict[str, object]:
        """Return the training time so far, without evaluation, and the samples if they are told."""
        samples = _first_number(its, _SAMPLES)
        totals: dict[str, object] = {} if samples is None else {names.SAMPLES: samples}
        if self._began is not None:
            ended = at if self._evaluating is None else self._evaluating
            totals[names.TRAIN_SECONDS] = ended - self._began - self._evaluated
        return totals


class Stdout:
    """The lines of MLPerf's logging on a worker's stdout, followed as it grows."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Open the file; ``say`` writes a sentence for the user to stderr."""
        self._file = open_regular(path)
        self._log = MLLog(say)
        self._position = 0
        self._rest = b""
        self._is_ending = False

    def read(self) -> Iterator[Line]:
        """Yield the lines of the metrics file for the next whole lines."""
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        if size < self._position:  # cut short by the command
            self._position, self._rest = 0, b""
        while self._position < size:
            data = os.pread(self._file, _PIECE_BYTES, self._position)
            self._position += len(data)
            *whole, rest = (self._rest + data).split(b"\n")
            self._rest = rest[-_LONGEST_LINE:]
            for line in whole:
                yield from self._log.lines(line)
        if self._is_ending:
            rest, self._rest = self._rest, b""
            yield from self._log.lines(rest)

    def end(self) -> None:
        """Let the next reading take the last line, which may lack its end."""
        self._is_ending = True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)


def _first_number(its: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((its[key] for key in keys if _is_number(its.get(key))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
