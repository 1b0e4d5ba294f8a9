"""English words."""


def count(number: int, of: str) -> str:
    """Return a number of things, such as ``2 workers``."""
    return f"{number} {of}" if number == 1 else f"{number} {of}s"
