"""Read the file that a tracker wrote."""

import json
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def metrics(path: Path) -> list[dict[str, Any]]:
    """Return the values of each line that has metrics."""
    return [line["metrics"] for line in lines(path) if "metrics" in line]
