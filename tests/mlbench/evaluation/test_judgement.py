"""Whether a comparison is fair, what differs, and which group is the fastest."""

from dataclasses import replace

import pytest

from mlbench.contract.comparisons import Convergence, Score
from mlbench.contract.records import Goal
from mlbench.evaluation.comparison import judge
from tests.support.known import known
from tests.support.results import (
    make_aimless,
    make_comparison,
    make_difference,
    make_matrix,
    make_sweep,
)


def test_runs_that_can_be_compared() -> None:
    said = judge(make_matrix((1, 2), 1))
    assert said.sentence == (
        "These runs can be compared: the same data, goal and batch size, as far as stated."
    )
    assert (said.reasons, said.differences, said.departures) == ((), (), ())
    assert said.sentence.startswith(f"{said.title}:")
    alone = judge(make_comparison([make_aimless(1)]))
    assert (alone.sentence, alone.title) == ("", "Two runs make a comparison")


def test_the_fastest_group_is_that_with_the_least_mean_time() -> None:
    matrix = make_matrix((1, 2, 4), 2)
    fastest = known(judge(matrix).fastest)
    assert (fastest.group, fastest.slowest) == (2, 0)
    assert fastest.times_as_fast == pytest.approx(4**0.8)
    other = replace(matrix.results[0], target=Goal("loss", 1.0, lower_is_better=True))
    for results in (
        (other, *matrix.results[1:]),
        (replace(matrix.results[0], disturbed=("rank 0 waited",)), *matrix.results[1:]),
    ):
        assert judge(replace(matrix, results=results)).fastest is None
    assert judge(replace(matrix, groups=matrix.groups[:1])).fastest is None


def test_reasons_come_before_what_else_differs() -> None:
    comparison = replace(
        make_matrix((1, 2), 1),
        comparable="no",
        differences=(
            make_difference("batch_size", "yes", "batch_size is 32 for run 1 and 64 for run 2"),
            make_difference("data", "unknown", "run 2 does not state its data"),
            make_difference("momentum", "learning", "momentum is 0 in run 1 and 0.9 in run 2"),
            make_difference("cpu", "no", "cpu is a for run 1 and b for run 2"),
        ),
    )
    judgement = judge(comparison)
    assert judgement.sentence == "These runs cannot be compared:"
    assert judgement.reasons == (
        "batch_size is 32 for run 1 and 64 for run 2",
        "run 2 does not state its data",
    )
    assert judgement.learning == ("momentum is 0 in run 1 and 0.9 in run 2",)
    assert judgement.learned_by == "What is learned may differ by: momentum."
    assert judgement.differences == ("cpu is a for run 1 and b for run 2",)
    assert judgement.fastest is None


def test_a_departure_is_told_once_for_all_its_runs() -> None:
    comparison = make_matrix((1, 2), 2)
    changed, goal = "the code has changes", "its goal is 90"
    departures: list[tuple[str, ...]] = [(changed,), (), (changed,), (changed, goal)]
    results = tuple(
        replace(result, departures=texts)
        for result, texts in zip(comparison.results, departures, strict=True)
    )
    said = judge(replace(comparison, results=results))
    assert said.departures == ("runs 1, 3, 4: the code has changes", "run 4: its goal is 90")


def test_a_disturbed_run_is_told_of_in_the_verdict_itself() -> None:
    comparison = make_matrix((1, 2), 1)
    first = replace(comparison.results[0], disturbed=("rank 0 waited for a core",))
    disturbed = replace(comparison, results=(first, comparison.results[1]))
    said = judge(disturbed)
    assert said.sentence.endswith("CPU contention or profiling may explain how they differ.")
    assert said.disturbed == ("run 1: rank 0 waited for a core",)
    scaling = make_difference("threads", "scaling", "threads is 1 and 2")
    assert judge(replace(disturbed, differences=(scaling,))).verdict == "scaling"
    assert judge(replace(disturbed, comparable="no")).verdict == "no"


def test_official_scores_and_runs_that_converge_too_fast_are_told() -> None:
    matrix = make_matrix((1, 2), 1)
    fast = Convergence(128, 6.0, 9.8, 9.2, True, 1.6, "they took 6 epochs")
    scored = replace(
        matrix.groups[1],
        score=Score("set", (1, 2), 7.0, 11.2, "official score of set set: 7 s"),
        convergence=fast,
    )
    usual = replace(matrix.groups[0], convergence=replace(fast, is_too_fast=False))
    assert judge(replace(matrix, groups=(usual, scored))).notes[:2] == (
        "2 workers: official score of set set: 7 s",
        "2 workers: they took 6 epochs",
    )


def test_what_a_sweep_tells_of_many_groups_is_one_sentence() -> None:
    many, few = make_sweep((1, 2), 3), make_sweep((2,), 2)
    caution, note = judge(many).notes
    assert caution.startswith("with 3 runs of a group, no difference is significant")
    assert note.startswith("0 of 11 groups differ from their baseline (p < 0.05")
    notes = judge(few).notes
    assert len(notes) == 6
    assert notes[1].startswith(
        "no significant difference between exchange flat, bandwidth 20 and exchange flat, "
    )
