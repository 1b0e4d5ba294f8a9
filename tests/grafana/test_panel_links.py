"""The page of a run links to panels that its dashboard has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_WEB = _ROOT / "master/mlbench_master/web"
_TITLES = {
    "loss": "Loss by time",
    "accuracy": "Accuracy or perplexity by time",
    "throughput": "Throughput",
    "phases": "Time breakdown",
    "ranks": "Ranks",
    "steps": "Step time of each rank",
    "cpu": "CPU",
}


def _panels(panels: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    for panel in panels:
        yield panel["id"], panel.get("title", "")
        yield from _panels(panel.get("panels", []))


def test_the_panels_of_links_and_frames_exist() -> None:
    board = json.loads((_ROOT / "grafana/dashboards/mlbench-run.json").read_text())
    titles = dict(_panels(board["panels"]))
    module = (_WEB / "static/js/grafana.js").read_text()
    linked = re.findall(r"^  (\w+): (\d+),$", module, re.MULTILINE)
    assert {name: titles[int(panel)] for name, panel in linked} == _TITLES
    framed = re.findall(r'\{ id: (\d+), title: "([^"]+)" \}', module)
    assert len(framed) > 3
    assert all(titles[int(panel)] == title for panel, title in framed)


def test_each_link_of_the_page_has_a_panel() -> None:
    folder = _WEB / "templates"
    page = (folder / "run.html").read_text()
    parts = [(folder / name).read_text() for name in re.findall(r'include "(\w+\.html)"', page)]
    template = "".join([page, *parts])
    assert set(re.findall(r'data-panel="(\w+)"', template)) == set(_TITLES)
