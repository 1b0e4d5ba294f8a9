"""What hangs together in the dashboards does, and every rule of it catches where it does not."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.grafana import structure
from tests.grafana.dashboards import Dashboard, load_all
from tests.grafana.example import Edit, edited, good, inner_panel, panel, target, variable
from tests.grafana.exclusions import EXCLUSIONS
from tests.grafana.faults import Rule, judge, name
from tests.grafana.recorded import recorded_names

ROOT = Path(__file__).parents[2]
BOARDS = load_all()


def names_in_code() -> frozenset[str]:
    """Return every text in the code that could be the name of a series."""
    sources = [
        path
        for package in ("mlbench", "master", "worker", "exporter")
        for path in (ROOT / package).rglob("*.py")
    ]
    return frozenset(
        node.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


LINKS = structure.links_arrive(BOARDS)
SERIES = structure.series_exist(names_in_code(), recorded_names())
EXAMPLE_LINKS = structure.links_arrive([good()])
EXAMPLE_SERIES = structure.series_exist(
    frozenset({"mlbench_run_metric", "mlbench_worker_samples", "mlbench_run_info"})
    | frozenset(f"mlbench_run_{what}_timestamp_seconds" for what in ("started", "finished"))
    | {"mlbench_run_goal_reached_timestamp_seconds"},
    frozenset({"run:known:rate1m"}),
)


def test_there_is_a_dashboard_for_each_page() -> None:
    uids = [f"mlbench-{page}" for page in ("compare", "run", "runs", "stack", "workers")]
    assert [board.uid for board in BOARDS] == uids


def test_the_files_are_what_the_code_makes() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "grafana.build", "--check"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
@pytest.mark.parametrize("rule", [*structure.RULES, LINKS, SERIES], ids=name)
def test_the_rule_holds(board: Dashboard, rule: Rule) -> None:
    faults = judge(board, rule, EXCLUSIONS)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("rule", [*structure.RULES, EXAMPLE_LINKS, EXAMPLE_SERIES], ids=name)
def test_the_example_keeps_the_rule(rule: Rule) -> None:
    assert judge(good(), rule, ()) == []


def link(url: str) -> Edit:
    """Return a change that gives the first panel's values a link."""
    config = {"defaults": {"links": [{"title": "", "url": url}]}, "overrides": []}
    return panel(fieldConfig=config)


FAULTY: tuple[tuple[Rule, Edit], ...] = (
    (structure.uid_is_file_name, lambda board: board.update(uid="a8f3Xk")),
    (structure.unique_panel_ids, panel(id=None)),
    (structure.unique_panel_ids, panel(id=3)),
    (structure.unique_ref_ids, lambda board: board["panels"][0]["targets"].extend(2 * [{}])),
    (structure.grid, panel(gridPos={"x": 4, "y": 0, "w": 21, "h": 8})),
    (structure.grid, panel(gridPos={"x": 0, "y": 0, "w": 24, "h": 9})),
    (
        structure.grid,
        lambda board: board["panels"][1]["panels"].append(board["panels"][1]["panels"][0]),
    ),
    (structure.datasource_first, lambda board: board["templating"]["list"].reverse()),
    (structure.unique_variables, variable(2, name="run")),
    (structure.unique_variables, variable(2, label="")),
    (structure.variables_refer_backwards, variable(1, query="label_values(up{x='$rank'}, x)")),
    (structure.variables_refer_backwards, variable(1, regex="/${other:regex}/")),
    (structure.references_declared, target('up{run_id="$runs"}')),
    (structure.references_declared, target('up{run_id="${runs:regex}"}')),
    (structure.references_declared, target('up{run_id=~"[[runs]]"}')),
    (structure.references_declared, target("rate(up[$__rate_intervall])")),
    (structure.references_declared, panel(repeat="rnak")),
    (structure.references_declared, panel(title="$metrics")),
    (structure.references_declared, link("/d/example?var-run=${__date.fields.run_id}")),
    (
        structure.variables_used,
        lambda board: board["templating"]["list"].append({"name": "pod", "type": "query"}),
    ),
    (structure.ref_ids_exist, inner_panel(targets=[{"refId": "B", "expr": "up"}])),
    (structure.ref_ids_exist, link("/d/example?var-run=${__data.fields['Value #C']}")),
    (
        structure.ref_ids_exist,
        inner_panel(transformations=[{"id": "x", "filter": {"id": "byRefId", "options": "B"}}]),
    ),
    (structure.annotations_of_runs, lambda board: board["annotations"]["list"].pop()),
    (structure.nothing_hard_coded, target('up{run_id="1"}')),
    (structure.nothing_hard_coded, target('up{pod=~"worker-.*"}')),
    (structure.nothing_hard_coded, panel(description="Of local-mlbench-worker-0.")),
    (structure.nothing_hard_coded, link("http://127.0.0.1:9090/graph")),
    (structure.nothing_hard_coded, variable(1, current={"text": "first", "value": "1"})),
    (EXAMPLE_LINKS, link("/d/mlbench-runs")),
    (EXAMPLE_LINKS, link("d/example/name?from=now-1h&var-runs=1")),
    (EXAMPLE_LINKS, panel(description="See [all](/d/example?${metric:queryparam}).")),
    (EXAMPLE_LINKS, lambda board: board["links"][1].update(tags=["other"])),
    (EXAMPLE_SERIES, target("mlbench_run_losses")),
    (EXAMPLE_SERIES, target("sum(container_cpu_usage_seconds_total)")),
    (EXAMPLE_SERIES, target("run:unknown:rate1m")),
    (EXAMPLE_SERIES, variable(1, query="label_values(mlbench_run_infos, run_id)")),
)


@pytest.mark.parametrize(("rule", "edit"), FAULTY, ids=[name(rule) for rule, _ in FAULTY])
def test_the_rule_catches(rule: Rule, edit: Edit) -> None:
    assert list(rule(edited(edit))) != []


def test_every_rule_has_a_faulty_example() -> None:
    assert {name(rule) for rule, _ in FAULTY} == {
        name(rule) for rule in (*structure.RULES, LINKS, SERIES)
    }


def test_events_of_short_runs_are_found() -> None:
    """Grafana looks for them once a minute unless told otherwise: a run may take 15 s."""
    steps = {event.step for board in load_all() for event in board.annotations if event.expr}
    assert steps == {"2s"}
