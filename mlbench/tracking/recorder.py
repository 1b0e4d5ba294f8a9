"""The file format of recorded metrics: one JSON line for each call, appended with one write.

``{"time":1763683200.123456,"step":12,"metrics":{"train_loss":0.31,"learning_rate":0.1}}``

The file is the queue: the agent ships it, so a training process does no networking. Each line is
one ``write(2)`` to a file opened for appending, so a killed process loses nothing that it logged,
and several processes of one worker share its file. Lines of ranks other than the worker's contain
their rank: ``"rank":3``.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from math import isfinite
from pathlib import Path
from typing import SupportsFloat

from mlbench.contract import names
from mlbench.contract.clock import SteadyClock
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH
from mlbench.contract.process import of_worker, this_process
from mlbench.contract.reported_settings import Setting, check_settings, is_plain
from mlbench.contract.series import storable_text
from mlbench.tracking.totals import TotalsFile

Value = SupportsFloat | str

# repr() of the floats that JSON spells differently (as Python's json module does).
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Recorder:
    """Appends metrics of a process to the file that all processes of its worker share.

    Times come from a steady clock, so setting the system clock does not change their distances.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        """Open the file, and record which process this is if its worker has several."""
        self._clock = SteadyClock()
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._before = b""
        process, worker = this_process(environ), of_worker(environ)
        self._rank = "" if process.rank == worker.rank else f'"rank":{process.rank},'
        self.totals = TotalsFile(Path(names.totals_file(str(path), process.rank, os.getpid())))
        # A process of an external job continues if values cannot be written.
        self._may_lose = names.ENV_LAUNCHER in environ
        if process != worker:
            self._state("process", asdict(process))

    def write(self, metrics: Mapping[str, Value], step: SupportsFloat | None) -> None:
        """Append one line with the metrics and the time now.

        Raises:
            TypeError: a value is neither a number nor a string, or the step is not a number.
            ValueError: a value is a tensor of several numbers, or cannot be stored, or a metric
                name is invalid, or the step is not finite.
            OSError: the line could not be written in full (no space left), outside of external
                jobs.
        """
        try:
            fields = ",".join([_key(name) + _literal(value) for name, value in metrics.items()])
        except Exception:  # libraries raise exceptions of any type
            # The error names the first metric whose value cannot be recorded.
            for name, value in metrics.items():
                try:
                    _literal(value)
                except (TypeError, OverflowError) as error:
                    raise type(error)(f"metric {name!r}: {error}") from None
                except Exception as error:
                    raise ValueError(f"metric {name!r}: {error}") from None
            raise
        if type(step) is not int and step is not None:
            step = to_number("step", step)
        origin = self._rank if step is None else f'{self._rank}"step":{step},'
        line = f'{{"time":{self._clock.now():.6f},{origin}"metrics":{{{fields}}}}}\n'
        self._append(line, len(metrics))

    def write_goal(self, metric: str, value: float, lower_is_better: bool) -> None:
        """Append a line with the goal of the run."""
        self._state("goal", {"metric": metric, "value": value, "lower_is_better": lower_is_better})

    def write_settings(self, settings: Mapping[str, Setting]) -> None:
        """Append a line with the settings of the run's task, which ``check_settings`` checks."""
        check_settings(settings)
        list_own(self._path, [""])
        self._state("settings", dict(settings))

    def close(self) -> None:
        os.close(self._file)
        self.totals.close()

    def _state(self, kind: str, content: Mapping[str, object]) -> None:
        self._append(json.dumps({"time": round(self._clock.now(), 6), kind: content}) + "\n")

    def _append(self, line: str, values: int = 1) -> None:
        data = self._before + line.encode()
        try:
            written = os.write(self._file, data)
        except OSError:
            if not self._may_lose:
                raise
            written = 0
        if written == len(data):
            self._before = b""
        elif not self._may_lose:
            raise OSError("metrics file full: a line was cut, so the run cannot be trusted")
        else:
            self.totals.add_lost(values)
            if written:
                self._before = b"\n"  # ends the truncated line before the next one


@cache
def _key(name: str) -> str:
    """Return the JSON of a metric name, with the colon before its value."""
    check_name(name)
    return json.dumps(name) + ":"


def list_own(metrics_file: Path, own: Iterable[str]) -> None:
    """List the metrics that this process records itself; an empty name stands for settings."""
    path = Path(names.own_names_file(str(metrics_file), os.getpid()))
    # If the disk is full, the metrics themselves cannot be written either.
    with suppress(OSError), path.open("a") as file:
        file.writelines(f"{name}\n" for name in own)


def to_float(value: Value) -> float:
    """Return a value as a float.

    Raises:
        TypeError: the value is neither a number nor a string.
        ValueError: the value is a string that is not a number, or a tensor of several numbers.
    """
    if isinstance(value, (float, int, str)):
        return float(value)
    # Without detach(), a tensor that needs gradients converts with a warning.
    detach = getattr(value, "detach", None)
    return float(detach() if detach else value)


def to_number(field: str, value: SupportsFloat) -> int | float:
    """Return a step or a number of samples as a Python number.

    Raises:
        TypeError: the value is not a single number.
        ValueError: the value is not finite.
    """
    if type(value) is int:
        return value
    item = getattr(value, "item", None)  # exact, where float() rounds
    try:
        number = item() if callable(item) else value
        number = int(number) if isinstance(number, int) else to_float(number)
    except Exception:  # libraries raise exceptions of any type
        words = f"{field}: must be a number (got {value!r:.80}). Convert it, for example by int()."
        raise TypeError(words) from None
    if not isfinite(number):
        raise ValueError(f"{field}: must be finite (got {value!r:.80}). Leave it out.")
    return int(number) if number == int(number) else number


def check_name(name: str) -> None:
    """Raise ValueError if a metric cannot have this name."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_METRIC_NAME_LENGTH
        or not is_plain(name)
    ):
        raise ValueError(
            f"metric name: must be a string of 1 to {MAX_METRIC_NAME_LENGTH} characters, "
            f"without NUL or surrogates (got {name!r:.300})"
        )


def _literal(value: Value) -> str:
    if type(value) is float and isfinite(value):  # the usual case
        return repr(value)
    if isinstance(value, str):
        return json.dumps(storable_text(value))
    text = repr(to_float(value))
    return _NOT_FINITE.get(text, text)
