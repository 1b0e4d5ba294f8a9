"""What runs are evaluated by, where it is not their own goal and deadline."""

import math
from dataclasses import dataclass

from mlbench.contract.records import Goal, Record
from mlbench.contract.series import MAX_NAME_LENGTH


@dataclass(frozen=True)
class Criteria(Record):
    """What runs are evaluated by; None for a run's own."""

    target: Goal | None = None
    """By default, each run's goal."""
    after_seconds: float | None = None
    """The time of "accuracy after time": by default, each run's deadline, else two hours."""
    price: float | None = None
    """The price of a worker-second."""


OWN_CRITERIA = Criteria()


def read_goal(text: str) -> Goal:
    """Return the goal that a text such as ``val_loss<=0.1`` says; raise ValueError for others."""
    lower_is_better = text.rfind("<=") > text.rfind(">=")
    parts = text.rpartition("<=" if lower_is_better else ">=")
    metric, sign, value = (part.strip(" ") for part in parts)
    number = read_finite(value)
    if not sign or not 0 < len(metric) <= MAX_NAME_LENGTH or "\0" in metric or number is None:
        raise ValueError(
            "METRIC>=VALUE or METRIC<=VALUE with a finite number, such as val_loss<=0.1 "
            f"(not {text[:80]!r})"
        )
    return Goal(metric, number, lower_is_better)


def read_finite(text: str) -> float | None:
    """Return the number that a text spells, in ASCII and without underscores as Python has them."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and text.isascii() and "_" not in text else None
