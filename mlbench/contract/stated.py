"""Settings and goals that tasks state about their runs: one rule for all parts."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import TypeGuard

Setting = str | int | float | bool | None

MOST_SETTINGS = 500
LONGEST_NAME = 200
LONGEST_TEXT = 1024
# JSON carries larger ones, but not every reader and database does.
_INTEGERS = range(-(2**63), 2**63)


def spell(value: Setting) -> str:
    """Write a value as ``--set`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def check_settings(settings: object) -> None:
    """Make sure that settings can be stored and shown as they are; a ValueError says why not."""
    if not isinstance(settings, Mapping):
        raise ValueError("settings map names to values")
    if len(settings) > MOST_SETTINGS:
        raise ValueError(f"at most {MOST_SETTINGS} settings (not {len(settings)})")
    for name, value in settings.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not is_plain(name):
            raise ValueError(f"the name of a setting is a text of 1 to {LONGEST_NAME} characters")
        if not is_setting(value):
            raise ValueError(
                f"setting {name!r} must be a text of at most {LONGEST_TEXT} characters, a finite "
                "number, a truth value or None"
            )


def is_setting(value: object) -> TypeGuard[Setting]:
    """Check that a value can be stated as a setting: no huge number, no infinity, no long text."""
    match value:
        case None | bool():
            return True
        case int():
            return value in _INTEGERS
        case float():
            return isfinite(value)
        case str():
            return len(value) <= LONGEST_TEXT and is_plain(value)
        case _:
            return False


def is_plain(text: str) -> bool:
    """Check that every database takes a text: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def reaches(value: float, goal: float, *, lower_is_better: bool) -> bool:
    """Check that a value is as good as the goal, or better; NaN and infinities never are."""
    return isfinite(value) and (value <= goal if lower_is_better else value >= goal)
