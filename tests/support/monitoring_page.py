"""docs/monitoring.md, and the commands that it shows."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()


def commands_below(heading: str) -> str:
    """Return the first block of commands below a heading."""
    [text] = re.findall(rf"^#+ {heading}\n(.*?)^#", PAGE, re.MULTILINE | re.DOTALL)
    block = re.search(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block
    return block[1]
