"""What a cluster's API takes and gives: objects as JSON, with texts of whoever wrote them."""

from typing import Any

# Only some of it is looked at.
Object = dict[str, Any]


def to_line(text: object) -> str:
    """Return what comes from a cluster as one line that a terminal and a database can take."""
    words = "".join(char if char.isprintable() else " " for char in str(text or ""))
    return " ".join(words.split())
