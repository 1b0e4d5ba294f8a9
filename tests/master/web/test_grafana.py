"""What the pages link and embed of Grafana is what the dashboards have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]
_BOARDS = {
    board["uid"]: board
    for path in (_ROOT / "grafana" / "dashboards").glob("*.json")
    for board in [json.loads(path.read_text())]
}


def _modules() -> Iterator[str]:
    folder = _ROOT / "master" / "web" / "static" / "js"
    return (path.read_text() for path in folder.rglob("*.js"))


def _panels(holder: dict[str, Any]) -> Iterator[tuple[int, str]]:
    for panel in holder.get("panels", []):
        yield panel["id"], panel["title"]
        yield from _panels(panel)


def test_every_named_dashboard_is_there() -> None:
    named = {uid for text in _modules() for uid in re.findall(r"mlbench-(?!theme)[a-z]+", text)}
    assert named
    assert named <= set(_BOARDS)


def test_every_embedded_panel_is_there() -> None:
    text = (_ROOT / "master/web/static/js/run/grafana.js").read_text()
    embedded = {(int(id_), title) for id_, title in re.findall(r'id: (\d+), title: "(.*?)"', text)}
    assert embedded
    assert embedded <= set(_panels(_BOARDS["mlbench-run"]))


def test_every_variable_in_a_link_is_there() -> None:
    for module, uid in (
        ("run/grafana.js", "mlbench-run"),
        ("compare/elsewhere.js", "mlbench-compare"),
    ):
        text = (_ROOT / "master/web/static/js" / module).read_text()
        named = set(re.findall(r'"var-(\w+)"', text))
        assert named
        assert named <= {one["name"] for one in _BOARDS[uid]["templating"]["list"]}
