"""What the static files repeat of other parts agrees with them: colours, phases, dashboards."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from grafana import build
from master.web.assets import load
from mlbench import names, palette
from tests.mlbench.test_palette import contrast


def read(path: str) -> str:
    return load().files[path].content.decode()


# --- Colours. ---


def _colours() -> Iterator[tuple[str, str, str]]:
    """Yield the custom properties of the sheet: name, value on light paper, value on dark."""
    rule = read("style.css").partition(":root {")[2].partition("}")[0]
    for name, value in re.findall(r"--([\w-]+): ([^;]+);", rule):
        both = re.fullmatch(r"light-dark\((.+), (.+)\)", value)
        yield (name, both[1], both[2]) if both else (name, value, value)


_LIGHT = {name: light for name, light, _ in _colours()}
_DARK = {name: dark for name, _, dark in _colours()}


def test_states_and_phases_are_coloured_as_on_the_dashboards() -> None:
    states = {f"state-{state.lower()}": colour for state, colour in palette.RUN_STATE.items()}
    pods = {f"state-{phase.lower()}": colour for phase, colour in palette.POD_PHASE.items()}
    phases = {f"phase-{phase}": colour for phase, colour in palette.PHASE.items()}
    ours = {name: value for name, value in _LIGHT.items() if name.startswith(("state-", "phase-"))}
    assert ours == states | pods | phases


@pytest.mark.parametrize("theme", [_LIGHT, _DARK], ids=["light", "dark"])
def test_texts_and_lines_are_readable(theme: dict[str, str]) -> None:
    for paper in ("paper", "ground", "raised"):
        for text in ("ink", "soft", "link", "good", "bad"):
            assert contrast(theme[text], theme[paper]) >= 4.5, (text, paper)
    assert contrast(theme["on-accent"], theme["accent"]) >= 4.5
    assert contrast(theme["bad"], theme["bad-ground"]) >= 4.5
    for line in [f"series-{i}" for i in range(7)] + ["edge", "focus"]:
        assert contrast(theme[line], theme["paper"]) >= 3, line


# --- Names. ---


def test_phases_are_those_of_everybody() -> None:
    block = read("js/records.js").partition("PHASES = [")[2].partition("]")[0]
    assert tuple(re.findall(r'"(\w+)"', block)) == names.PHASES


# --- Dashboards. ---

_BOARDS = {
    board["uid"]: board
    for path in build.FOLDER.glob("*.json")
    for board in [json.loads(path.read_text())]
}


def _panels(holder: dict[str, Any]) -> Iterator[tuple[int, str]]:
    for panel in holder.get("panels", []):
        yield panel["id"], panel["title"]
        yield from _panels(panel)


def test_every_dashboard_panel_and_variable_is_there() -> None:
    module = read("js/grafana.js")
    boards = set(re.findall(r'"(mlbench-[a-z]+)"', module))
    panels = {(int(id_), title) for id_, title in re.findall(r'id: (\d+), title: "(.*?)"', module)}
    variables = set(re.findall(r'"var-(\w+)"', module))
    assert len(boards) == 4
    assert boards <= set(_BOARDS)
    assert panels
    assert panels <= set(_panels(_BOARDS["mlbench-run"]))
    there = {
        one["name"]
        for uid in ("mlbench-run", "mlbench-compare")
        for one in _BOARDS[uid]["templating"]["list"]
    }
    assert variables == {"run_id", "runs", "metric"}
    assert variables <= there
