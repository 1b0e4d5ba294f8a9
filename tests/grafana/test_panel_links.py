"""The page of a run links to panels that its dashboard has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_TEMPLATES = _ROOT / "master/mlbench_master/web/templates"
_TITLES = {
    "Loss": "Loss by time",
    "Accuracy": "Accuracy or perplexity by time",
    "Throughput": "Throughput",
    "Phases": "Time breakdown",
    "Ranks": "Ranks",
    "Step times": "Step time of each rank",
    "Resources": "CPU",
}


def _panels(panels: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    for panel in panels:
        yield panel["id"], panel.get("title", "")
        yield from _panels(panel.get("panels", []))


def test_the_panels_of_links_and_frames_exist() -> None:
    board = json.loads((_ROOT / "grafana/dashboards/mlbench-run.json").read_text())
    titles = dict(_panels(board["panels"]))
    template = "".join((_TEMPLATES / name).read_text() for name in ("run.html", "_steps.html"))
    linked = re.findall(r'<a [^>]*data-panel="(\d+)" hidden>(.+) in Grafana</a>', template)
    assert {name: titles[int(panel)] for panel, name in linked} == _TITLES
    framed = re.findall(r'\((\d+), "([^"]+)"\)', template)
    assert len(framed) > 3
    assert all(titles[int(panel)] == title for panel, title in framed)
