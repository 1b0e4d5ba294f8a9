"""Settings and targets that processes report about their runs."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import TypeGuard

from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTING_LENGTH, MAX_SETTINGS

Setting = str | int | float | bool | None


def format_value(value: Setting) -> str:
    """Return a value in the notation of ``--set``."""
    return value if isinstance(value, str) else json.dumps(value)


def check_settings(settings: object) -> None:
    """Raise a ValueError unless settings can be stored and shown unchanged."""
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings must map names to values (got {type(settings).__name__})")
    if len(settings) > MAX_SETTINGS:
        raise ValueError(f"at most {MAX_SETTINGS} settings (not {len(settings)})")
    for name, value in settings.items():
        is_text = isinstance(name, str) and 0 < len(name) <= MAX_METRIC_NAME_LENGTH
        if not is_text or not is_plain(name):
            raise ValueError(
                f"the name of a setting must be a string of 1 to {MAX_METRIC_NAME_LENGTH} "
                f"characters (got {name!r:.100})"
            )
        if not is_setting(value):
            raise ValueError(
                f"setting {name!r} must be a string of at most {MAX_SETTING_LENGTH} characters, "
                f"a finite number, a boolean or None (got {type(value).__name__})"
            )


def is_setting(value: object) -> TypeGuard[Setting]:
    """Check that a value can be a setting: no integer beyond 64 bits, no infinity, no long text."""
    match value:
        case None | bool():
            return True
        case int():
            # JSON allows larger integers, but not every reader and database does.
            return -(2**63) <= value < 2**63
        case float():
            return isfinite(value)
        case str():
            return len(value) <= MAX_SETTING_LENGTH and is_plain(value)
        case _:
            return False


def is_plain(text: str) -> bool:
    """Check that every database can store a text: no NUL, and no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def reaches(value: float, target: float, *, lower_is_better: bool) -> bool:
    """Check that a value is as good as the target or better; NaN and infinities never are."""
    return isfinite(value) and (value <= target if lower_is_better else value >= target)
