"""Phrases with numbers and lists for messages to people."""

import re
from collections.abc import Mapping, Sequence

# Control characters except tabs and line ends, and characters that change the writing direction.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def count(number: int, noun: str) -> str:
    """Return a number and its noun, such as ``2 workers``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def numbered(noun: str, numbers: Sequence[object]) -> str:
    """Return a noun and the numbers of its instances, such as ``run 3`` or ``runs 1, 2``."""
    nouns = noun if len(numbers) == 1 else f"{noun}s"
    return f"{nouns} {', '.join(map(str, numbers))}"


def byte_size(number: float) -> str:
    """Return bytes as ``512 B`` or ``1.28 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def spans(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers as spans, such as ``0-3`` and ``6``."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][-1] + 1:
            ends[-1][1:] = [number]
        else:
            ends.append([number])
    return ["-".join(map(str, span)) for span in ends]


def swept(values: Mapping[str, str]) -> str:
    """Return the swept values of a run in a phrase, such as ``exchange flat, rate 1mbit``."""
    return ", ".join(f"{key} {value}" for key, value in values.items())


def join(items: Sequence[str]) -> str:
    """Return items as in a sentence, such as ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(items[:-1])]), *items[-1:]])


def visible(text: str) -> str:
    """Return a text with escaped control characters, which a terminal would otherwise execute."""
    return _CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)


def printable(text: str, other: str = "?", allowed: str = "") -> str:
    """Return a text with ``other`` for each character that is neither printable nor allowed."""
    return "".join(char if char.isprintable() or char in allowed else other for char in text)
