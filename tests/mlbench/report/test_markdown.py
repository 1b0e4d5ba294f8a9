"""Comparisons as Markdown."""

from dataclasses import replace

from mlbench.report.manifest import Fact
from mlbench.report.markdown import render
from tests.mlbench.report.making import (
    make_comparison,
    make_difference,
    make_matrix,
    make_result,
)


def test_a_report_begins_with_what_and_whether_it_can_be_compared() -> None:
    comparison = replace(
        make_matrix((1, 2), 1),
        differences=(make_difference("cpu", "no", "cpu is a for run 1 and b for run 2"),),
    )
    lines = render(comparison).splitlines()
    assert lines[0] == "# digits on 1, 2 workers"
    assert lines[2] == "2 runs, goal: val_global_Prec@1 ≥ 97"
    assert (
        lines[4]
        == "**These runs can be compared: the same data, goal and batch size, as far as stated.**"
    )
    assert lines[6:9] == ["What else differs:", "", "- cpu is a for run 1 and b for run 2"]


def test_tables_have_their_units_and_figures_at_the_right() -> None:
    lines = render(make_comparison([make_result(1)])).splitlines()
    table = lines[lines.index("## Where the time went") :]
    assert table[4:7] == ["| phase | 1 worker (s) |", "| :--- | ---: |", "| data | 0.20 |"]


def test_runs_that_did_not_finish_are_told() -> None:
    assert render(make_matrix((1,), 2), left_out=1).splitlines()[2] == (
        "2 runs, goal: val_global_Prec@1 ≥ 97; left out: 1 that did not finish"
    )


def test_facts_about_the_machines_come_last() -> None:
    text = render(make_matrix((1,), 2), (Fact("rank 0", "a CPU; 2 cores"),))
    assert text.endswith("## Run 1 ran on\n\n- rank 0: a CPU; 2 cores\n")


def test_nothing_of_the_users_is_markup() -> None:
    departure = "its <b> is `a|b` *c* [d](e)\n# f _g_ snake_case"
    result = replace(make_result(1), departures=(departure,))
    line = r"- run 1: its \<b\> is \`a\|b\` \*c\* \[d\](e) \# f \_g\_ snake_case"
    assert line in render(make_comparison([result])).splitlines()
