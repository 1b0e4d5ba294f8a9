"""The names of the recording rules."""

import re
from pathlib import Path

_RULES = Path(__file__).parents[2] / "prometheus" / "rules"


def recorded_names() -> frozenset[str]:
    """Return what the recording rules call what they compute."""
    files = (path.read_text(encoding="utf-8") for path in _RULES.glob("*.yml"))
    return frozenset(name for text in files for name in re.findall(r"record:\s*(\S+)", text))
