"""The names that the pages' modules know are those of everybody."""

import re
from pathlib import Path

from mlbench import names

_MODULE = Path(__file__).parents[3] / "master" / "web" / "static" / "js" / "names.js"


def test_phases_are_those_of_everybody() -> None:
    assert tuple(re.findall(r'"(\w+)"', _MODULE.read_text())) == names.PHASES
