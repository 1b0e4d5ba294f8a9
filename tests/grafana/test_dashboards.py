"""Dashboard files are up to date, consistent, and refer only to existing series."""

import ast
import functools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grafana import thresholds
from mlbench.contract import names, palette
from tests.support.dashboards import REFERENCE, ROOT, Dashboard, load, load_all, texts, variables_in
from tests.support.processes import run_text
from tests.support.rules import read_rules

# Importing the SDK alone raises a warning, which is an error in tests.
if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import ThresholdsConfig

BOARDS = load_all()
RULES = read_rules("alert") | read_rules("record")

# Grafana's built-in variables.
_BUILT_IN = frozenset(
    {"__all", "__data", "__field", "__interval", "__interval_ms", "__range", "__rate_interval"}
    | {"__range_s", "__url_time_range"}
)
# Grafana units that suit the measured values.
_UNITS = {
    *("none", "short", "sci", "percent", "percentunit", "bytes", "Bps", "s", "ms", "dthms"),
    *("cps", "ops", "reqps", "wps", "watt", "locale", "time:MM-DD HH:mm", "dtdurations"),
}
_SERIES = re.compile(r"\b(?:mlbench|container|machine)_\w+|\b\w+:\w+:\w+")
_QUOTED_SERIES = re.compile(r'"(?:mlbench|container|machine)_')
_OF_A_TYPE = re.compile(r"_(total|bucket|sum|count)$")
_OF_A_MACHINE = re.compile(rf"{names.LOCAL_POD_PREFIX}\d|\d+\.\d+\.\d+\.\d+|\blocalhost\b")
_BOARD_LINK = re.compile(r"/d/(?P<uid>[^/?]+)/\S*?\?(?P<query>\S*)")

# Panel titles by the text of the links to them.
_LINKED = {
    "Loss": "Loss by time",
    "Accuracy": "Accuracy or perplexity by time",
    "Throughput": "Throughput",
    "Phases": "Time breakdown",
    "Ranks": "Ranks",
    "Step times": "Step time of each rank",
    "Resources": "CPU",
}

each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def test_the_files_are_up_to_date() -> None:
    checked = run_text([sys.executable, "-m", "grafana.build", "--check"], cwd=ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert [board.uid for board in BOARDS] == [
        f"mlbench-{page}" for page in ("compare", "run", "runs", "stack", "workers")
    ]


@each_board
def test_prometheus_can_parse_every_query(board: Dashboard, promtool: Path, tmp_path: Path) -> None:
    values = {"__interval": "2s", "__range": "1h", "__rate_interval": "1m"}
    rules = "".join(
        f"  - alert: query {number}\n    expr: |-\n      "
        + REFERENCE.sub(lambda match: values.get(match["plain"], "1"), expr)
        + "\n"
        for number, (_, expr) in enumerate(board.queries)
    )
    file = tmp_path / "queries.yml"
    file.write_text(f"groups:\n- name: queries\n  rules:\n{rules}")
    checked = run_text([promtool, "check", "rules", file])
    assert checked.returncode == 0, checked.stderr


@each_board
def test_every_variable_is_declared_before_its_use(board: Dashboard) -> None:
    known = set(_BUILT_IN)
    assert board.variables[0]["name"] == "datasource"
    for variable in board.variables:
        assert variables_in(variable) <= known, variable["name"]
        known.add(variable["name"])
    assert variables_in(board.json) <= known


@each_board
def test_each_refresh_looks_up_the_runs_and_no_other_variable(board: Dashboard) -> None:
    on_time_range_change = 2
    looked_up = {
        variable["name"]
        for variable in board.variables
        if variable["refresh"] == on_time_range_change
    }
    assert looked_up <= {"run_id"}


@each_board
def test_panels_refer_to_existing_queries(board: Dashboard) -> None:
    for panel in board.panels:
        answers = {target["refId"] for target in panel["targets"]}
        for _, text in texts(panel["transformations"]):
            for ref in re.findall(r"^Value #([^(]+?)(?: \(\w+\))?$", text):
                assert ref in answers, panel["title"]


@each_board
def test_links_lead_to_dashboards_and_set_variables_that_they_have(board: Dashboard) -> None:
    variables = {other.uid: {variable["name"] for variable in other.variables} for other in BOARDS}
    for _, text in texts(board.json):
        for link in _BOARD_LINK.finditer(text):
            passed = set(re.findall(r"var-(\w+)=", link["query"]))
            assert passed <= variables[link["uid"]], text


def test_the_panels_that_the_page_of_a_run_links_to_exist() -> None:
    titles = {panel["id"]: panel["title"] for panel in load("mlbench-run").panels}
    folder = ROOT / "master/mlbench_master/web/templates"
    template = "".join((folder / name).read_text() for name in ("run.html", "_steps.html"))
    linked = re.findall(r'<a [^>]*data-panel="(\d+)" hidden>(.+) in Grafana</a>', template)
    assert {name: titles[int(panel)] for panel, name in linked} == _LINKED
    framed = re.findall(r'\((\d+), "([^"]+)"\)', template)
    assert len(framed) > 3
    assert all(titles[int(panel)] == title for panel, title in framed)


@each_board
def test_panels_have_a_description_and_a_unit(board: Dashboard) -> None:
    for panel in board.panels:
        assert panel["title"]
        assert panel["description"]
        if not panel["targets"]:
            continue
        overrides = panel["fieldConfig"]["overrides"]
        units = [
            p["value"]
            for override in overrides
            for p in override["properties"]
            if p["id"] == "unit"
        ]
        for unit in [panel["fieldConfig"]["defaults"]["unit"], *units]:
            assert unit in _UNITS or unit.startswith(("prefix:", "suffix:")), panel["title"]


@pytest.mark.parametrize(
    ("uid", "title", "last"),
    [
        ("mlbench-runs", "All runs", "started"),
        ("mlbench-compare", "Compared runs", "workers"),
        ("mlbench-workers", "Worker pods", "memory"),
        ("mlbench-run", "Ranks", "train loss"),
    ],
)
def test_main_columns_of_a_table_fit_a_small_screen(uid: str, title: str, last: str) -> None:
    [panel] = [panel for panel in load(uid).panels if panel["title"] == title]
    properties = {
        override["matcher"]["options"]: {p["id"]: p["value"] for p in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }
    organize = panel["transformations"][-1]["options"]
    by_place = sorted(organize["indexByName"], key=organize["indexByName"].get)
    columns = [organize["renameByName"].get(name, name) for name in by_place]
    main_columns = columns[: columns.index(last) + 1]
    # Grafana's default column width is 150 px. Beside the menu, a 1280 px screen leaves 930 px.
    assert sum(properties[name].get("custom.width", 150) for name in main_columns) <= 930


@each_board
def test_rates_follow_grafanas_interval_and_counters_are_shown_by_rates(board: Dashboard) -> None:
    for place, expr in board.queries:
        spans = re.findall(r"\brate\(\w+(?:\{[^}]*\})?\[([^]]*)\](?! @ end\(\))", expr)
        assert set(spans) <= {"$__rate_interval"}, place
        counters = re.findall(r"(\w+\()?(\w+_total)\b", expr)
        assert {function for function, _ in counters} <= {"rate(", "increase("}, place


@each_board
def test_no_text_is_specific_to_a_machine_or_run(board: Dashboard) -> None:
    for _, text in texts(board.json):
        assert not _OF_A_MACHINE.search(text), text
        assert not re.search(r"\b(run_id|pod|node|instance)=~?\"[^\"$.(]", text), text


@functools.cache
def names_in_code() -> frozenset[str]:
    """Return every string in the code that could name a series, without its type suffix."""
    parts = ("mlbench", "master", "worker", "exporter")
    sources = (path.read_text() for part in parts for path in (ROOT / part).rglob("*.py"))
    # Parsing all files takes a second, so the regular expression skips most of them.
    return frozenset(
        _OF_A_TYPE.sub("", node.value)
        for text in sources
        if _QUOTED_SERIES.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@each_board
def test_every_series_is_one_that_the_code_exposes_or_a_rule_records(board: Dashboard) -> None:
    for place, expr in board.queries:
        for series in _SERIES.findall(expr):
            known = RULES if ":" in series else names_in_code()
            assert _OF_A_TYPE.sub("", series) in known, f"{place}: unknown series {series}"


@each_board
def test_start_target_and_end_of_short_runs_are_marked(board: Dashboard) -> None:
    marked = {
        series for annotation in board.annotations for series in _SERIES.findall(annotation["expr"])
    }
    events = {names.RUN_STARTED, names.RUN_TARGET_REACHED, names.RUN_FINISHED}
    # Boards of a chosen run also mark hang diagnoses.
    assert marked - {names.RUN_DIAGNOSIS} == events
    # Grafana's default interval for annotations is a minute, but a run may take 15 s. Grafana reads
    # the interval from the annotation up to version 11, and from its query from version 12 on.
    for annotation in board.annotations:
        assert annotation["step"] == annotation["target"]["interval"] == "2s"


def test_alerts_of_workers_have_the_color_of_their_severity() -> None:
    severities = {
        alert: RULES[f"MLBench{alert}"]["labels"]["severity"]
        for alert in (*thresholds.CRITICAL_ALERTS, "Straggler", "CPUContention", "ClockSkew")
    }
    critical = {alert for alert, severity in severities.items() if severity == "critical"}
    assert critical == set(thresholds.CRITICAL_ALERTS)


@pytest.mark.parametrize(
    ("config", "rule", "limit"),
    [
        (thresholds.STRAGGLER, "MLBenchStraggler", r"ratio1m > ([\d.]+)"),
        (thresholds.DISTURBED, "MLBenchCPUContention", r"ratio1m > ([\d.]+)"),
        (thresholds.SPOOL, "MLBenchSpoolGrowing", r"> ([\d.]+) \* max"),
        (thresholds.HEARTBEAT_AGE, "MLBenchWorkerLost", r"last30s > ([\d.]+)"),
        (
            thresholds.PROGRESS_AGE,
            "run_rank:mlbench_worker_progress:limit_seconds",
            r",\s+([\d.]+)\s+\)\s+unless",
        ),
    ],
)
def test_the_red_threshold_is_the_limit_of_the_alert(
    config: "ThresholdsConfig", rule: str, limit: str
) -> None:
    [value] = re.findall(limit, RULES[rule]["expr"])
    [red] = [step.value for step in config.steps if step.color == palette.RED]
    assert red == float(value)
