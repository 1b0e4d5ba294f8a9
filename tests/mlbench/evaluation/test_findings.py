"""Findings about runs: each rule with and without its cause."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.archive import bundle
from mlbench.archive.reading import opened
from mlbench.contract.names import Bucket
from mlbench.contract.records import Interference, Outcome
from mlbench.contract.results import (
    CheckpointCost,
    Finding,
    Goodput,
    RankGoodput,
    RankInterference,
    RankResult,
    Result,
    Resumption,
    Saving,
    Straggler,
    Stragglers,
)
from mlbench.evaluation.findings import Check, check, findings_of
from mlbench.evaluation.inputs import NotFiniteLoss, RankRow
from mlbench.evaluation.verification import context_of, recompute
from tests.mlbench.evaluation.making import make_result, make_run
from tests.support import rows
from tests.support.known import known

QUIET = Interference(**rows.QUIET)
_ARCHIVES = Path(__file__).parents[3] / "docs" / "archives"
_USUAL: Mapping[Bucket, float] = {
    **{"start": 1.0, "initialization": 9.0, "compute": 75.0, "communication": 8.0},
    **{"waiting": 3.0, "data": 1.0, "idle": 3.0},
}


Seconds = Mapping[Bucket, float]
"""Seconds of a rank by bucket."""


def result_of(*ranks: Seconds, **fields: Any) -> Result:
    """Return a result in which each rank has these seconds by bucket, added to the defaults."""
    of_ranks = [RankGoodput(rank, 1, {**_USUAL, **seconds}) for rank, seconds in enumerate(ranks)]
    total: Any = sum((Counter(row.seconds) for row in of_ranks), Counter[Bucket]())
    given: dict[str, Any] = {"goodput": Goodput(0.8, total, tuple(of_ranks)), "samples": 1e4}
    given |= {"training_seconds": 100.0, "wall_seconds": 110.0}
    given |= {"ranks": tuple(figures_of(rank) for rank in range(len(ranks)))}
    return make_result(1, len(ranks), **given | fields)


def figures_of(rank: int, **fields: Any) -> RankResult:
    """Return the figures of a rank that computes for 75 of 80 ms in each of 1,000 steps."""
    return replace(RankResult(rank, 1000, None, 80.0, 0.08, 0.075, 0.1, {}, 0.0), **fields)


def delayed_by_rank_1(speedup: float, **seconds: float) -> Stragglers:
    """Return the stragglers of two ranks, of which rank 1 was late."""
    parts: Any = {"data": 0.0, "checkpoint": 0.0} | seconds
    late = Straggler(1, sum(seconds.values()), parts, speedup)
    return Stragglers(speedup, (late, replace(late, rank=0, seconds=0.0)), "late", named=1)


def rules_of(result: Result, ranks: list[RankRow] | None = None, **run: Any) -> list[str]:
    found = findings_of(make_run(**{"num_workers": 2, **run}), ranks or [], result)
    return [finding.rule for finding in found]


def only(result: Result, ranks: list[RankRow] | None = None, **run: Any) -> Finding:
    """Return the result's single finding."""
    [finding] = findings_of(make_run(num_workers=2, **run), ranks or [], result)
    return finding


def test_a_healthy_run_has_no_finding() -> None:
    ranks = interference()
    assert rules_of(result_of({}, {}), ranks) == []
    # A run that has not started has no finding.
    assert rules_of(make_result(1, 2), ranks) == []
    # The communication benchmark does nothing but communicate.
    communicates = result_of({"communication": 900.0}, {"communication": 900.0})
    assert rules_of(communicates, ranks, benchmark="communication") == []


@pytest.mark.parametrize(
    "archive", ["cifar10", "cifar10-alone", "cifar10-mlbench", "gpt", "lstm", "frameworks-cifar10"]
)
def test_published_long_runs_have_no_finding_but_contention(archive: str, tmp_path: Path) -> None:
    files = bundle.archives_in(_ARCHIVES / f"results-{archive}.mlbench", tmp_path)
    assert files
    for file in files:
        with opened(file) as sealed:
            result = recompute(sealed, context_of(sealed))
        rules = {finding.rule for finding in result.findings}
        assert rules == ({"contention"} if result.disturbed else set())


def test_a_straggler_is_named_with_its_saving() -> None:
    figures = (figures_of(0, compute_seconds=0.05), figures_of(1, compute_seconds=0.078))
    stragglers = delayed_by_rank_1(1.6, compute=27.0, data=1.0)
    finding = only(result_of({"waiting": 30.0}, {}, stragglers=stragglers, ranks=figures))
    assert (finding.rule, finding.severity) == ("straggler", "bad")
    assert finding.title == "Rank 1 held up the others"
    work = "its own work takes 78 ms a step, that of the others 50 ms"
    assert finding.text == f"It was 28.0 s late: {work}. The time is in computing."
    # Training would take 50 s without the straggler, with an accuracy of 5 %.
    expected = (80 - 80 / 1.6, 80 - 52.5, 80 - 47.5)
    assert astuple(known(finding.saving)) == pytest.approx(expected)


def test_the_cost_of_data_loading_is_the_waiting_time() -> None:
    finding = only(result_of({"data": 20.0}, {"data": 30.0}))
    assert (finding.rule, finding.seconds) == ("data", 50.0)
    assert finding.text.startswith("Ranks waited 25.0 s of 111.0 s in steps for their next batch.")
    # Nothing but data makes ranks late in turns, so that their waits of 3 s end too.
    assert finding.saving == Saving(28.0, 20.0, 33.0)


def test_waits_for_data_are_saved_unless_they_have_another_cause() -> None:
    def saved(*ranks: Seconds, **fields: Any) -> Saving | None:
        found = findings_of(make_run(num_workers=2), [], result_of(*ranks, **fields))
        return next(finding.saving for finding in found if finding.rule == "data")

    uneven: Seconds = {"data": 25.0, "waiting": 20.0}
    assert saved(uneven, uneven) == Saving(45.0, 25.0, 45.0)
    contended: Seconds = {**uneven, "contention": 75.0}
    assert saved(contended, contended) == Saving(30.0, 25.0, 45.0)
    long: Seconds = {"data": 25.0, "waiting": 60.0}
    assert saved(long, long) == Saving(50.0, 25.0, 85.0)
    late = Straggler(1, 40.0, {"compute": 40.0, "data": 0.0, "checkpoint": 0.0}, 1.3)
    stragglers = Stragglers(1.3, (late,), "late", named=1)
    assert saved(uneven, uneven, stragglers=stragglers) == Saving(25.0, 25.0, 25.0)


def test_a_rank_that_never_joined_does_not_change_the_saving() -> None:
    result = result_of({"data": 20.0}, {"data": 30.0})
    first, last = known(result.goodput).ranks
    goodput = replace(known(result.goodput), ranks=(first, replace(last, rank=2)))
    assert only(replace(result, goodput=goodput)).saving == Saving(28.0, 20.0, 33.0)
    # Contention took half of the time, which the breakdown subtracts from each phase.
    ranks = tuple(figures_of(rank, phases={"data": 20.0 + 10 * rank}) for rank in range(2))
    assert only(result_of({"data": 12.5}, ranks=ranks)).saving == Saving(15.5, 10.0, 18.0)


def test_communication_names_the_limit_or_the_small_batch() -> None:
    slow: Seconds = {"communication": 100.0}
    finding = only(result_of(slow, slow), max_bandwidth=20.0)
    assert finding.title == "Communication dominates the steps"
    assert finding.text.endswith("The bandwidth is limited to 20 Mbit/s.")
    assert finding.saving == Saving(100.0, 100.0, 100.0)
    small = figures_of(0, compute_seconds=0.001)
    finding = only(result_of(slow, slow, ranks=(small,)))
    assert finding.title == "The batch of a worker is small"
    assert "computes for 1 ms only" in finding.text
    # With twice the batch, half as many steps communicate and wait.
    assert finding.saving == Saving(51.5, 50.0, 51.5)


def test_twice_the_batch_halves_the_fixed_costs_of_steps() -> None:
    slow: Seconds = {"communication": 100.0, "waiting": 10.0}
    phases = {"forward": 40.0, "optimizer": 6.0, "other": 4.0, "communication": 110.0}
    small = figures_of(0, compute_seconds=0.001, training_seconds=160.0, phases=phases)
    result = result_of(slow, {**slow, "communication": 80.0}, ranks=(small, small))
    assert only(result).saving == Saving(55.0, 40.0, 60.0)
    # All time except communication is computation.
    unphased = replace(small, phases={"communication": 110.0, "other": 50.0})
    assert only(replace(result, ranks=(unphased,))).saving == Saving(50.0, 40.0, 55.0)
    # A straggler's work grows with the batch.
    late = replace(result, stragglers=delayed_by_rank_1(1.01, compute=1.0))
    findings = findings_of(make_run(), [], late)
    [saving] = [finding.saving for finding in findings if finding.rule == "communication"]
    assert saving == Saving(50.0, 40.0, 55.0)


def test_contention_is_reported_even_if_it_cost_little() -> None:
    measured = replace(QUIET, waiting_seconds=6.0, seconds=100.0, top={"chromium": 9.0, "sh": 1.0})
    disturbed = RankInterference(1, 1, True, 0.06, None, "rank 1", measured)
    result = result_of({}, {"contention": 6.0}, interferences=(disturbed,), disturbed=("rank 1",))
    finding = only(result)
    assert finding.rule == "contention"
    programs = "chromium and sh, up to 6 % of the time"
    assert finding.text == f"Other programs used cores of rank 1: {programs}."
    assert finding.saving == Saving(6.0, 3.0, 6.0)


def test_a_hypervisor_that_held_cores_is_contention() -> None:
    measured = replace(QUIET, waiting_seconds=1.0, stolen_seconds=20.0, seconds=100.0)
    stolen = RankInterference(1, 1, True, 0.01, 0.2, "rank 1", measured)
    finding = only(result_of({}, {}, interferences=(stolen,), disturbed=("rank 1",)))
    assert finding.rule == "contention"
    assert finding.text == "A hypervisor held cores of rank 1, up to 20 % of the time."
    assert finding.saving is None


@pytest.mark.parametrize("field", ["profiled", "stopped"])
def test_a_profiled_or_stopped_run_has_no_contention(field: str) -> None:
    fields: dict[str, Any] = {field: ((1.0, 4.0),)}
    measured = replace(QUIET, seconds=100.0, waiting_seconds=1.0, **fields)
    disturbed = RankInterference(1, 1, True, 0.01, 0.0, "rank 1", measured)
    result = result_of({}, {"contention": 1.0}, interferences=(disturbed,), disturbed=("rank 1",))
    assert findings_of(make_run(num_workers=2), [], result) == ()


def test_contention_by_own_processes_is_told_beside_that_by_other_programs() -> None:
    measured = replace(QUIET, waiting_seconds=20.0, seconds=100.0, stack_waiting_seconds=30.0)
    disturbed = RankInterference(1, 1, True, 0.2, None, "rank 1", measured)
    result = result_of({}, {"contention": 50.0}, interferences=(disturbed,), disturbed=("rank 1",))
    assert only(result).text == (
        "Other programs used cores of rank 1: idle, up to 20 % of the time, "
        "and MLBench's own processes another 30 %."
    )


@pytest.mark.parametrize(("waited", "rule"), [(24.0, "contention"), (10.0, "straggler")])
def test_a_rank_delayed_by_other_programs_is_not_a_straggler(waited: float, rule: str) -> None:
    measured = replace(QUIET, waiting_seconds=waited, seconds=100.0)
    disturbed = RankInterference(1, 1, True, waited / 100, None, "rank 1", measured)
    more: dict[str, Any] = {"stragglers": delayed_by_rank_1(1.6, compute=28.0)}
    more |= {"interferences": (disturbed,)}
    assert rules_of(result_of({"waiting": 30.0}, {"contention": waited}, **more))[0] == rule


@pytest.mark.parametrize(
    ("settings", "share", "ready", "text"),
    [
        ({"threads": 4}, 0.2, None, "Rank 0 runs 4 threads on 1 core"),
        ({"threads": 1}, 0.5, 180.0, ""),
        ({"threads": 4}, 0.1, 390.0, ""),
        ({}, 0.4, 390.0, ""),
        ({}, 0.74, 390.0, "Rank 0 has 3.9 ready threads on average on 1 core"),
        # One computing thread, and threads that communicate.
        ({}, 0.5, 180.0, ""),
        # Earlier versions did not count ready threads.
        ({}, 0.5, None, ""),
    ],
)
def test_more_threads_than_cores(
    settings: Mapping[str, int], share: float, ready: float | None, text: str
) -> None:
    waits = {"self_contention_seconds": 100 * share, "ready_thread_seconds": ready}
    ranks = interference(cores=1, **waits)[:1]
    findings = findings_of(make_run(num_workers=2, settings=settings), ranks, result_of({}, {}))
    assert [finding.rule for finding in findings] == ["threads"] * bool(text)
    for finding in findings:
        waited = f"where they waited for each other for {100 * share:.0f} % of its time"
        remedy = "Set OMP_NUM_THREADS=1, or torch.set_num_threads(1) in the code."
        assert (finding.text, finding.saving) == (f"{text}, {waited}. {remedy}", None)


def interference(**fields: Any) -> list[RankRow]:
    """Return two ranks with this interference."""
    measured: Interference = replace(QUIET, seconds=100.0, **fields)
    return [RankRow(attempt=1, rank=rank, interference=measured) for rank in range(2)]


def test_a_cpu_limit_and_a_memory_limit() -> None:
    throttled = interference(throttled_seconds=30.0, self_contention_seconds=30.0)
    finding = only(result_of({"stopped": 30.0}, {"stopped": 20.0}), throttled)
    assert (finding.rule, finding.seconds) == ("cpu_limit", 50.0)
    # A process stopped by a signal has no CPU limit.
    assert rules_of(result_of({"stopped": 30.0}, {}), interference()) == []
    finding = only(result_of({}, {}), interference(pod_pressure_seconds={"memory": 20.0}))
    assert finding.rule == "memory"
    assert finding.text == "Processes of rank 1 waited for memory for 20 % of the time."


def test_evaluation_and_checkpoints_that_are_too_frequent() -> None:
    finding = only(result_of({"evaluation": 100.0}, {"evaluation": 100.0}))
    assert finding.title == "Evaluation takes 50 % of the time"
    assert finding.saving == Saving(50.0, 50.0, 50.0)
    cost = CheckpointCost(40, 0.5, 1e6)
    finding = only(result_of({"checkpoint": 20.0}, {"checkpoint": 20.0}, checkpoints=cost))
    assert finding.text.endswith("40 checkpoints took 500 ms each.")
    assert finding.saving == Saving(15.0, 15.0, 15.0)


def test_a_long_start_counts_unless_the_run_was_interrupted() -> None:
    slow: Seconds = {"initialization": 160.0}
    assert only(result_of(slow, slow), state="FINISHED").title == "64 % of the time was start-up"
    assert rules_of(result_of(slow, slow)) == []  # still training
    # The time of a run that recorded no training is unknown.
    assert rules_of(result_of(slow, slow, training_seconds=None), state="FINISHED") == []
    assert rules_of(result_of(slow, slow), state="FAILED") == []
    hung = Outcome("hung", "hung after 3 steps", "hung")
    assert rules_of(result_of(slow, slow, outcome=hung), state="STOPPED") == []


@pytest.mark.parametrize(
    ("faults", "title"), [(None, "2 restarts"), ("kill:every=10s", "2 planned restarts")]
)
def test_restarts_cost_the_discarded_time(faults: str | None, title: str) -> None:
    result = result_of({"lost": 12.0}, {"restart": 8.0}, resumptions=(Resumption(5, 41, True),))
    finding = only(result, attempt=3, faults=faults)
    assert (finding.title, finding.seconds) == (title, 20.0)
    assert finding.text.endswith(", with 41 discarded steps.")


def test_restarts_cost_the_start_up_of_later_attempts() -> None:
    result = result_of({"lost": 12.0}, {"lost": 8.0})
    again: Seconds = {"start": 1.0, "initialization": 6.0, "compute": 50.0}
    goodput = known(result.goodput)
    rows = (*goodput.ranks, *(RankGoodput(rank, 2, again) for rank in (0, 1)))
    finding = only(replace(result, goodput=replace(goodput, ranks=rows)), attempt=2)
    assert finding.saving == Saving(17.0, 15.0, 19.0)


def test_the_largest_saving_comes_first() -> None:
    slow: Seconds = {"data": 50.0, "evaluation": 90.0}
    findings = findings_of(make_run(num_workers=2), [], result_of(slow, slow))
    # Half of the evaluations would remain, so fewer evaluations save 45 s.
    assert [finding.rule for finding in findings] == ["data", "evaluation"]
    assert [finding.seconds for finding in findings] == [100.0, 180.0]


def test_errors_come_first_and_at_most_three_are_shown() -> None:
    slow: Seconds = {"diverged": 1.0, "data": 50.0, "evaluation": 200.0, "lost": 90.0}
    loss = NotFiniteLoss("train_loss", 0.0, 1061, "0")
    run = make_run(num_workers=2, not_finite=loss, attempt=2)
    findings = findings_of(run, [], result_of(slow, slow))
    assert [finding.rule for finding in findings] == ["nan", "evaluation", "restarts"]
    assert findings[0].text.startswith("Training loss is not a number since step 1,061, rank 0.")


def test_a_prediction_is_checked_by_a_later_run() -> None:
    before = result_of({"data": 20.0}, {"data": 30.0})
    before = replace(before, findings=findings_of(make_run(num_workers=2), [], before))
    after = replace(result_of({}, {}), run_id=2, training_seconds=80.0)
    compared = check(before, after)
    assert isinstance(compared, Check)
    assert (compared.rules, compared.clock) == (("data",), "training")
    assert compared.predicted == Saving(72.0, 67.0, 80.0)
    assert compared.error == pytest.approx(-0.1)
    assert check(before, before) == "no finding of run 1 with a predicted saving is gone"
    differ = "the runs differ in their {} or {}, so their times cannot be compared"
    assert check(before, replace(after, samples=2e4)) == differ.format("workers", "samples")
    # Code without a tracker records only steps.
    before, after = (replace(result, samples=None) for result in (before, after))
    assert isinstance(check(before, after), Check)
    shorter = tuple(replace(rank, steps=500) for rank in after.ranks)
    assert check(before, replace(after, ranks=shorter)) == differ.format("ranks", "steps")
