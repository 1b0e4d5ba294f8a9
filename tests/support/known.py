"""Unwrap optional values that a test knows to be present."""

from typing import TypeVar

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """Return the value, and fail if it is None."""
    assert value is not None
    return value
