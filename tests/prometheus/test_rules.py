"""Every alert states its severity and remedy, and every rule has test cases.

``make check`` runs promtool on the configuration and on the cases.
"""

import json
from pathlib import Path
from statistics import median

import pytest

from mlbench.contract import names
from tests.support.processes import run_text
from tests.support.rules import FOLDER, ROOT, Rule, read_cases, read_rules

ALERTS = read_rules("alert")
alerts = pytest.mark.parametrize(("name", "alert"), ALERTS.items(), ids=ALERTS)


@alerts
def test_an_alert_states_its_severity_and_remedy(name: str, alert: Rule) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook"}
    assert alert["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
    assert (ROOT / alert["annotations"]["runbook"]).is_file()


@alerts
def test_an_alert_has_firing_and_silent_cases(name: str, alert: Rule) -> None:
    cases = [case for case in read_cases("alert_rule_test") if case["alertname"] == name]
    assert {bool(case["exp_alerts"]) for case in cases} == {True, False}
    fired = [
        expected
        for case in cases
        for expected in case["exp_alerts"]
        if "run_id" in expected["exp_labels"]
    ]
    descriptions = [expected["exp_annotations"]["description"] for expected in fired]
    for expected, description in zip(fired, descriptions, strict=True):
        assert f"Run {expected['exp_labels']['run_id']}" in description
    assert not descriptions or any("Run 1 (digits-1)" in text for text in descriptions)


@pytest.mark.parametrize("name", read_rules("record"))
def test_a_recording_rule_has_a_case_with_values(name: str) -> None:
    expressions = [case["expr"] for case in read_cases("promql_expr_test") if case["exp_samples"]]
    assert any(name in expression for expression in expressions)


@pytest.mark.parametrize(
    "seconds",
    [
        *([1], [1, 2.6], [2, 2]),
        *([2.6, 1, 1], [1, 2, 3], [2.6, 1, 2.6], [1, 9, 10]),
        [1 + rank * 37 % 200 / 1000 for rank in range(199)] + [2.6],
    ],
    ids=lambda seconds: f"{len(seconds)} ranks, at most {max(seconds)} s",
)
def test_a_rank_is_compared_with_the_median_of_the_others(
    seconds: list[float], promtool: Path, tmp_path: Path
) -> None:
    computing = 'run_rank:mlbench_worker_compute_seconds:mean1m{run_id="1",rank="%d"}'
    ratios = [
        {"labels": f'{{run_id="1",rank="{rank}"}}', "value": round(duration / median(others), 3)}
        for rank, duration in enumerate(seconds)
        if (others := seconds[:rank] + seconds[rank + 1 :])
    ]
    test = {
        "input_series": [
            {"series": computing % rank, "values": f"{duration}x1"}
            for rank, duration in enumerate(seconds)
        ],
        "promql_expr_test": [
            {
                "expr": "round(run_rank:mlbench_worker_straggler:ratio1m, 0.001)",
                "eval_time": "1m",
                "exp_samples": ratios,
            }
        ],
    }
    file = tmp_path / "stragglers.yml"
    rules = str(FOLDER / "rules" / "recording.yml")
    file.write_text(json.dumps({"rule_files": [rules], "tests": [test]}))
    tried = run_text([promtool, "test", "rules", file])
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_the_loss_alert_matches_all_loss_names() -> None:
    assert f'metric=~"{"|".join(names.LOSSES)}"' in ALERTS["MLBenchLossNotFinite"]["expr"]


def test_the_breakdown_knows_all_phases_outside_of_training() -> None:
    rules = (FOLDER / "rules" / "recording.yml").read_text()
    assert f'phase!~"{"|".join(names.UNTRAINED)}"' in rules
