"""Constants that the static files duplicate: colours, phases and dashboards."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from typing import Any

from grafana import build
from mlbench.contract import names, palette
from mlbench_master.web.static_assets import load


def read(path: str) -> str:
    return load().files[path].content.decode()


_OURS = r"--((?:state|phase|bucket|series)-[\w-]+): (#\w+);"


def test_pages_and_dashboards_use_the_same_colours() -> None:
    rule = read("style.css").partition(":root {")[2].partition("}")[0]
    ours = dict(re.findall(_OURS, rule))
    states = {f"state-{state.lower()}": colour for state, colour in palette.RUN_STATE.items()}
    pods = {f"state-{phase.lower()}": colour for phase, colour in palette.POD_PHASE.items()}
    phases = {f"phase-{phase}": colour for phase, colour in palette.PHASE.items()}
    buckets = {f"bucket-{bucket}": colour for bucket, colour in palette.BUCKET.items()}
    series = {f"series-{i}": colour for i, colour in enumerate(palette.SERIES)}
    assert ours == states | pods | phases | buckets | series


def test_heat_maps_use_the_colours_of_reports() -> None:
    style = read("style.css")
    grounds = re.findall(r"--heat-(\d): (.+?);", style)
    inks = re.findall(r'data-heat="(\d)"\] \{ --heat: .+?; --heat-ink: (.+?); \}', style)
    assert grounds == [(str(i), ground) for i, (ground, _) in enumerate(palette.HEAT)]
    assert inks == [(str(i), ink) for i, (_, ink) in enumerate(palette.HEAT)]


def test_phases_and_losses_match_the_python_names() -> None:
    records = read("js/records.js")
    for name in ("PHASES", "LOSSES"):
        block = records.partition(f"{name} = [")[2].partition("];")[0]
        assert tuple(re.findall(r'"([^"]+)"', block)) == getattr(names, name)


_ALL_BOARDS = [json.loads(path.read_text()) for path in build.FOLDER.glob("*.json")]
_BOARDS = {board["uid"]: board for board in _ALL_BOARDS}


def _panels(holder: dict[str, Any]) -> Iterator[tuple[int, str]]:
    for panel in holder.get("panels", []):
        yield panel["id"], panel["title"]
        yield from _panels(panel)


def test_linked_panels_and_variables_are_in_the_dashboards() -> None:
    module = read("js/grafana.js")
    [pages] = re.findall(r"const BOARDS = (.*);", module)
    boards = {f"mlbench-{page}" for page in json.loads(pages)}
    template = (files("mlbench_master.web") / "templates/run.html").read_text()
    panels = {(int(id_), title) for id_, title in re.findall(r'\((\d+), "([^"]+)"\)', template)}
    variables = set(re.findall(r'"var-(\w+)"', module))
    assert len(boards) == 4
    assert boards <= set(_BOARDS)
    assert panels
    assert panels <= set(_panels(_BOARDS["mlbench-run"]))
    lists = [_BOARDS[uid]["templating"]["list"] for uid in ("mlbench-run", "mlbench-compare")]
    assert variables == {"run_id", "metric", "newest"}
    assert variables <= {variable["name"] for variable in chain(*lists)}
