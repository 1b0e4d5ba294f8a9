"""What a report says first."""

from dataclasses import replace

from mlbench.report.statement import statement, subtitle, title
from tests.mlbench.report.making import (
    make_aimless,
    make_comparison,
    make_difference,
    make_matrix,
    make_result,
)


def test_the_title_names_tasks_and_workers() -> None:
    matrix = make_matrix((1, 2, 4), 2)
    assert title(matrix) == "digits on 1, 2, 4 workers"
    assert subtitle(matrix) == "6 runs, goal: val_global_Prec@1 ≥ 97"
    assert subtitle(matrix, 2).endswith("≥ 97; left out: 2 that did not finish")


def test_a_run_of_ones_own_code_without_a_goal() -> None:
    alone = make_comparison([make_aimless(1)])
    assert title(alone) == "own code on 1 worker"
    assert subtitle(alone) == "1 run, no goal"


def test_runs_that_can_be_compared() -> None:
    said = statement(make_matrix((1, 2), 1))
    assert said.sentence == (
        "These runs can be compared: the same data, goal and batch size, as far as stated."
    )
    assert (said.reasons, said.differences, said.departures) == ((), (), ())


def test_a_single_run_is_not_compared() -> None:
    assert statement(make_comparison([make_result(1)])).sentence == ""


def test_reasons_come_before_what_else_differs() -> None:
    comparison = replace(
        make_matrix((1, 2), 1),
        comparable="no",
        differences=(
            make_difference("batch_size", "yes", "batch_size is 32 for run 1 and 64 for run 2"),
            make_difference("data", "unknown", "run 2 does not state its data"),
            make_difference("cpu", "no", "cpu is a for run 1 and b for run 2"),
        ),
    )
    said = statement(comparison)
    assert said.sentence == "These runs cannot be compared:"
    assert said.reasons == (
        "batch_size is 32 for run 1 and 64 for run 2",
        "run 2 does not state its data",
    )
    assert said.differences == ("cpu is a for run 1 and b for run 2",)


def test_a_departure_is_told_once_for_all_its_runs() -> None:
    comparison = make_matrix((1, 2), 2)
    results = [
        replace(result, departures=("the code has changes",) if result.run_id != 2 else ())
        for result in comparison.results
    ]
    results[3] = replace(results[3], departures=("the code has changes", "its goal is 90"))
    said = statement(replace(comparison, results=tuple(results)))
    assert said.departures == ("runs 1, 3, 4: the code has changes", "run 4: its goal is 90")
