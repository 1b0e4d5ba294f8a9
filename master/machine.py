"""The machine that an agent states: checked before it is stored."""

from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite

from mlbench.records import StatedMachine

_LONGEST_TEXT = 1024


def read_machine(fields: object) -> StatedMachine:
    """Return the machine that a JSON object states; what else it states is left out.

    Raises:
        ValueError: a fact is of another type, or cannot be stored.
    """
    if not isinstance(fields, Mapping):
        raise ValueError("a machine must be a JSON object")
    # Which ranks are on it is not for one of them to say.
    machine = StatedMachine.from_fields({**fields, "ranks": ()})
    _check_storable(asdict(machine))
    return machine


def _check_storable(fact: object) -> None:
    match fact:
        case str():
            fact.encode()
            if len(fact) > _LONGEST_TEXT or "\0" in fact:
                raise ValueError(f"a text has at most {_LONGEST_TEXT} characters, and no NUL")
        case int() | float():
            if not (isfinite(fact) and -(2**63) <= fact < 2**63):
                raise ValueError("a number is finite, and has 64 bits at most")
        case dict():
            for name, part in fact.items():
                _check_storable(name)
                _check_storable(part)
        case tuple():
            for part in fact:
                _check_storable(part)
