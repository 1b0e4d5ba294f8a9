"""The style sheet's colours: those of the dashboards, and readable on both papers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import palette
from tests.mlbench.test_palette import contrast

_SHEET = (Path(__file__).parents[3] / "master" / "web" / "static" / "style.css").read_text()


def _properties() -> Iterator[tuple[str, str, str]]:
    """Yield the custom properties of the sheet: name, value on light paper, value on dark."""
    rule = _SHEET.partition(":root {")[2].partition("}")[0]
    for name, value in re.findall(r"--([\w-]+): ([^;]+);", rule):
        both = re.fullmatch(r"light-dark\((.+), (.+)\)", value)
        yield (name, both[1], both[2]) if both else (name, value, value)


_LIGHT = {name: light for name, light, _ in _properties()}
_DARK = {name: dark for name, _, dark in _properties()}


def test_states_and_phases_are_coloured_as_on_the_dashboards() -> None:
    states = {f"state-{state.lower()}": colour for state, colour in palette.RUN_STATE.items()}
    pods = {f"state-{phase.lower()}": colour for phase, colour in palette.POD_PHASE.items()}
    phases = {f"phase-{phase}": colour for phase, colour in palette.PHASE.items()}
    ours = {name: value for name, value in _LIGHT.items() if name.startswith(("state-", "phase-"))}
    assert ours == states | pods | phases


@pytest.mark.parametrize("theme", [_LIGHT, _DARK], ids=["light", "dark"])
@pytest.mark.parametrize("paper", ["paper", "ground", "raised"])
def test_texts_are_readable_on_every_paper(theme: dict[str, str], paper: str) -> None:
    texts = ["ink", "soft", "link", "good", "bad"]
    assert min(contrast(theme[text], theme[paper]) for text in texts) >= 4.5


@pytest.mark.parametrize("theme", [_LIGHT, _DARK], ids=["light", "dark"])
def test_other_pairs_are_readable_too(theme: dict[str, str]) -> None:
    assert contrast(theme["on-accent"], theme["accent"]) >= 4.5
    assert contrast(theme["bad"], theme["bad-ground"]) >= 4.5
    lines = [f"series-{i}" for i in range(7)] + ["edge", "focus"]
    assert min(contrast(theme[line], theme["paper"]) for line in lines) >= 3
