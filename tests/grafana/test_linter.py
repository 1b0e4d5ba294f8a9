"""Every dashboard keeps the linter's rules, and every rule catches a dashboard that does not."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.grafana import linter
from tests.grafana.dashboards import Dashboard, load_all
from tests.grafana.example import Edit, edited, good, inner_panel, panel, target, variable
from tests.grafana.exclusions import EXCLUSIONS, Exclusion
from tests.grafana.faults import Rule, judge, name
from tests.grafana.templating import sample

BOARDS = load_all()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
@pytest.mark.parametrize("rule", linter.RULES, ids=name)
def test_the_rule_holds(board: Dashboard, rule: Rule) -> None:
    faults = judge(board, rule, EXCLUSIONS)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("rule", linter.RULES, ids=name)
def test_the_example_keeps_the_rule(rule: Rule) -> None:
    assert judge(good(), rule, ()) == []


FAULTY: tuple[tuple[Rule, Edit], ...] = (
    (linter.template_datasource, variable(0, name="source")),
    (linter.template_datasource, variable(0, query="loki")),
    (linter.template_datasource, variable(0, label="")),
    (linter.template_datasource, variable(1, type="datasource")),
    (linter.template_label_promql, variable(1, query="mlbench_run_info")),
    (linter.template_label_promql, variable(1, query="values(mlbench_run_info)")),
    (linter.template_on_time_change_reload, variable(1, refresh=1)),
    (linter.panel_datasource, panel(datasource={"uid": "mlbench-prometheus"})),
    (linter.panel_datasource, inner_panel(datasource=None)),
    (linter.panel_datasource, variable(1, datasource={"uid": "other"})),
    (
        linter.panel_datasource,
        lambda board: board["annotations"]["list"][1].update(datasource={"uid": "other"}),
    ),
    (
        linter.mixed_data_sources,
        lambda board: board["panels"][0]["targets"][0].update(datasource={"uid": "loki"}),
    ),
    (linter.panel_title_description, panel(title="")),
    (linter.panel_title_description, inner_panel(description="")),
    (linter.panel_units, panel(fieldConfig={"defaults": {}, "overrides": []})),
    (linter.panel_units, panel(fieldConfig={"defaults": {"unit": "seconds"}})),
    (linter.panel_no_targets, panel(targets=[])),
    (linter.panel_no_targets, target("")),
    (linter.target_rate_interval, target("rate(a_total[5m])")),
    (linter.target_rate_interval, target("sum(irate(a_total[$__range]))")),
    (linter.target_rate_interval, target("increase(a_total[1h])")),
    (linter.target_counter_agg, target("sum(a_total)")),
    (linter.target_counter_agg, target("max_over_time(a_total[$__range])")),
    (linter.uneditable, lambda board: board.update(editable=True)),
)


@pytest.mark.parametrize(("rule", "edit"), FAULTY, ids=[name(rule) for rule, _ in FAULTY])
def test_the_rule_catches(rule: Rule, edit: Edit) -> None:
    assert list(rule(edited(edit))) != []


def test_every_rule_has_a_faulty_example() -> None:
    assert {rule for rule, _ in FAULTY} == set(linter.RULES)


def test_an_exclusion_accepts_a_fault_and_no_other() -> None:
    board = edited(panel(description=""))
    excluded = Exclusion("example", "Throughput", "panel-title-description", "")
    elsewhere = Exclusion("example", "Loss", "panel-title-description", "")
    rule = linter.panel_title_description
    assert judge(board, rule, [excluded]) == []
    assert len(judge(board, rule, [elsewhere])) == 2, "the fault, and the needless exclusion"
    assert judge(good(), rule, [excluded]) == ["Throughput: the exclusion excludes nothing"]


def test_exclusions_are_of_rules_and_dashboards_that_exist() -> None:
    uids = {board.uid for board in BOARDS}
    for one in EXCLUSIONS:
        assert one.dashboard in uids
        assert one.reason.endswith(".")


def faults_of_promql(queries: Iterable[str], promtool: Path, folder: Path) -> str:
    """Return what Prometheus's own parser says against queries; nothing if all are right."""
    rules = "".join(
        f"  - alert: query {number}\n    expr: |-\n"
        + "".join(f"      {line}\n" for line in query.splitlines())
        for number, query in enumerate(queries)
    )
    file = folder / "queries.yml"
    file.write_text(f"groups:\n- name: queries\n  rules:\n{rules}", encoding="utf-8")
    checked = subprocess.run(
        [promtool, "check", "rules", file], text=True, capture_output=True, check=False
    )
    return checked.stderr if checked.returncode else ""


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_target_promql(board: Dashboard, promtool: Path, tmp_path: Path) -> None:
    queries = [sample(one.expr, board.variables) for panel in board.panels for one in panel.targets]
    assert faults_of_promql(queries, promtool, tmp_path) == ""


def test_target_promql_catches(promtool: Path, tmp_path: Path) -> None:
    assert faults_of_promql(["sum(up)\n  by (job)"], promtool, tmp_path) == ""
    assert "unclosed" in faults_of_promql(["up", "sum(up"], promtool, tmp_path)
