"""Every alert says how bad it is, what happened and what to do, and is tried both ways."""

import pytest

from tests.prometheus.reading import ROOT, Rule, read_cases, read_rules

ALERTS = read_rules("alert")
alerts = pytest.mark.parametrize(("name", "alert"), ALERTS.items(), ids=ALERTS)


def expected(name: str) -> list[list[Rule]]:
    """Return what the cases of an alert expect: its labels and annotations, none or several."""
    return [
        case["exp_alerts"] for case in read_cases("alert_rule_test") if case["alertname"] == name
    ]


@alerts
def test_it_says_how_bad_it_is_and_what_happened(name: str, alert: Rule) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook"}
    assert all(alert["annotations"].values())


@alerts
def test_it_has_a_runbook(name: str, alert: Rule) -> None:
    assert alert["annotations"]["runbook"] == f"docs/runbooks/{name}.md"
    assert (ROOT / alert["annotations"]["runbook"]).is_file()


@alerts
def test_it_has_cases_in_which_it_fires_and_in_which_it_does_not(name: str, alert: Rule) -> None:
    assert {bool(found) for found in expected(name)} == {True, False}


@alerts
def test_it_names_its_run(name: str, alert: Rule) -> None:
    of_runs = [one for found in expected(name) for one in found if "run_id" in one["exp_labels"]]
    told = [(one["exp_labels"]["run_id"], one["exp_annotations"]["description"]) for one in of_runs]
    assert all(f"Run {run_id}" in description for run_id, description in told)
    assert not told or any("Run 1 (digits-1)" in description for _, description in told)
