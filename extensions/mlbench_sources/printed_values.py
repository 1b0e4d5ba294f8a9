"""Values in lines that a rank's processes print, such as ``epoch 3 loss 0.41 acc 0.87``.

They are read if the run was submitted with ``--from-stdout``. ``mlbench.contract.printed_values``
defines the patterns.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from mlbench.contract import names
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH
from mlbench.contract.printed_values import PAIR, WORDS
from mlbench_worker.agent.sources import Line, SourceContext

_COLOURS = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_STEPS = ("step", "iter", "iteration")
# Longer lines are likely data, not reports for people.
_MAX_LINE_LENGTH = 2000


def are_requested(context: SourceContext) -> bool:
    """Return whether values of the rank's output are to be read."""
    setting = f"{names.ENV_FROM_STDOUT}=1"
    is_in_command = any(setting in word for word in context.assignment.command)
    return is_in_command or context.environ.get(names.ENV_FROM_STDOUT) == "1"


def values_in(text: str) -> dict[str, float]:
    """Return the values in a printed line by name; {} if it reports nothing about a training.

    ``epoch 3/10`` is 3, because it counts; ``accuracy: 9832/10000`` is 0.9832.
    """
    values: dict[str, float] = {}
    is_training = False
    for pair in PAIR.finditer(_COLOURS.sub("", text)) if len(text) <= _MAX_LINE_LENGTH else ():
        name = re.sub(r"[^\w./]+", "_", pair["name"].lower()).strip("_.")
        words = re.split(r"[\W_]+", name)
        is_training = is_training or any(word in WORDS for word in words)
        value = float(pair["value"])
        if words[-1] == "epoch":
            name = names.EPOCH
        elif pair["total"] and words[-1] not in _STEPS and float(pair["total"]):
            value /= float(pair["total"])
        values[name[:MAX_METRIC_NAME_LENGTH]] = value
    return values if is_training else {}


class PrintedValues:
    """The values of a stream of output."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """``say`` prints a message in the run's log."""
        self._say = say
        self._last: Mapping[str, float] = {}
        self._step = -1.0
        self._known: set[str] = set()

    def lines(self, output: bytes) -> Iterator[Line]:
        """Yield the lines of the metrics file for a line of output.

        A progress bar that is drawn again without a new value is not a new value.
        """
        text = output.decode(errors="replace")
        values = values_in(text)
        is_of_mlbench = text.startswith("mlbench: ") or ":::MLLOG" in text
        if not values or values == self._last or is_of_mlbench:
            return
        self._last = values
        if new := [name for name in values if name not in self._known]:
            self._known.update(new)
            self._say(f"mlbench: {', '.join(new)}: read from the line {text.strip()[:200]!r}")
        steps = [value for name, value in values.items() if name.rpartition("_")[2] in _STEPS]
        # A step that begins again in each epoch is not the step of the run.
        if steps and steps[0] > self._step:
            self._step = steps[0]
            yield {"step": self._step, "metrics": values}
        else:
            yield {"metrics": values}
