"""English words, and numbers among them."""

import re
from collections.abc import Mapping, Sequence

# Control characters except tabs and line ends, and those that change the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def count(number: int, of: str) -> str:
    """Return a number of things, such as ``2 workers``."""
    return f"{number} {of}" if number == 1 else f"{number} {of}s"


def numbered(of: str, numbers: Sequence[object]) -> str:
    """Return things by their numbers, such as ``run 3`` or ``runs 1, 2``."""
    things = of if len(numbers) == 1 else f"{of}s"
    return f"{things} {', '.join(map(str, numbers))}"


def spans(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers as spans, such as ``0-3`` and ``6``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ["-".join(map(str, span)) for span in found]


def swept(values: Mapping[str, str]) -> str:
    """Return how runs are named by what they sweep, such as ``exchange flat, rate 1mbit``."""
    return ", ".join(f"{key} {value}" for key, value in values.items())


def join(things: Sequence[str]) -> str:
    """Return things as in a sentence, such as ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(things[:-1])]), *things[-1:]])


def visible(text: str) -> str:
    """Return a text with its control characters spelled out: a terminal would obey them."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
