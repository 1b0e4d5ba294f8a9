"""What travels between client and master, as frozen dataclasses."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlbench.records import (
    Benchmark,
    Delivery,
    Goal,
    Info,
    Pod,
    Rank,
    Run,
    RunEvent,
    RunLimits,
)

__all__ = [
    "Benchmark",
    "Delivery",
    "Goal",
    "Info",
    "Pod",
    "Rank",
    "Run",
    "RunEvent",
    "RunLimits",
]


def known(record: type[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the fields that a record has."""
    names = (part.name for part in dataclasses.fields(record))
    return {name: fields[name] for name in names if name in fields}
