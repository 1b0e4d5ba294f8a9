"""When a goal is reached: one rule for the tracker, the master, and who reads results."""

import math


def reaches(value: float, goal: float, *, lower_is_better: bool) -> bool:
    """Return whether a value is as good as the goal, or better; NaN and infinities never are."""
    return math.isfinite(value) and (value <= goal if lower_is_better else value >= goal)
