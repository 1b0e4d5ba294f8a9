"""Values that may be None, where a test knows that they are not."""

from typing import TypeVar

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """Return a value, and fail if it is None."""
    assert value is not None
    return value
