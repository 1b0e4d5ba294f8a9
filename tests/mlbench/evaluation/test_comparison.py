"""Comparisons: whether runs are comparable, groups, speed-ups and findings."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from mlbench.contract.comparisons import Convergence, Difference, Group, Score, Value
from mlbench.contract.records import Target
from mlbench.contract.results import Result
from mlbench.evaluation.comparison import compare, judge
from mlbench.evaluation.run_attributes import (
    SHAPE,
    are_comparable,
    attributes_of,
    find_differences,
    normalize,
)
from tests.mlbench.evaluation.making import make_facts, make_result, make_run, reaching
from tests.support.known import known
from tests.support.results import (
    make_aimless,
    make_comparison,
    make_difference,
    make_matrix,
    make_sweep,
)


def without(facts: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in facts.items() if name not in names}


def differences(*facts: dict[str, str]) -> tuple[Difference, ...]:
    """Return the differences of runs, which are numbered from 1."""
    return find_differences(normalize(dict(enumerate(facts, 1))))


def breaks(*found: Difference) -> list[tuple[str, str]]:
    return [(difference.name, difference.breaks) for difference in found]


def test_data_is_compared_by_its_checksum_or_else_by_its_name() -> None:
    assert differences(make_facts()) == differences(make_facts(), make_facts()) == ()
    assert are_comparable(()) == "yes"
    assert differences(make_facts(), make_facts(data="the same")) == ()
    nameless = without(make_facts(), "data_sha256")
    assert differences(make_facts(), nameless) == ()
    for other, values in (
        (make_facts(data_sha256="d2"), ["d1", "d2"]),
        (nameless | {"data": "cifar10"}, ["digits", "cifar10"]),
    ):
        [diff] = differences(make_facts(), other)
        assert (diff.name, diff.breaks) == ("data", "yes")
        assert [value.value for value in diff.values] == values


@pytest.mark.parametrize("name", ["target", "batch_size"])
def test_runs_with_another_target_or_batch_size_are_not_comparable(name: str) -> None:
    diffs = differences(make_facts(), make_facts() | {name: "other"}, make_facts())
    usual = make_facts()[name]
    text = f"{name} is {usual} in runs 1, 3 and other in run 2: they cannot be compared"
    values = (Value(usual, (1, 3)), Value("other", (2,)))
    assert diffs == (Difference(name, "yes", values, text),)
    assert are_comparable(diffs) == "no"
    # A swept option does not make runs incomparable.
    facts = normalize({1: make_facts(), 2: make_facts() | {name: "other"}})
    assert find_differences(facts, [name.replace("_", "-")]) == ()


def test_a_fixed_batch_per_worker_grows_with_the_workers() -> None:
    one = make_facts(batch_size="128", worker_batch_size="128")
    two = make_facts(batch_size="256", worker_batch_size="128", num_workers=2)
    assert are_comparable(differences(one, two)) == "yes"
    smaller = make_facts(batch_size="128", worker_batch_size="64", num_workers=2)
    assert differences(one, smaller) == ()
    assert are_comparable(differences(one, two, smaller)) == "no"


@pytest.mark.parametrize("name", ["target", "data", "batch_size"])
def test_comparability_is_unknown_if_a_run_lacks_a_fact(name: str) -> None:
    found = differences(make_facts(), without(make_facts(), name, "data_sha256"))
    assert breaks(*found) == [(name, "unknown")]
    stated = f"{name} is {make_facts()[name]} in run 1 and not stated in run 2"
    assert found[0].text == f"{stated}: whether they can be compared is not known"
    assert are_comparable(found) == "unknown"


def test_runs_of_the_same_code_share_unreported_facts() -> None:
    bare = without(make_facts(), "data", "data_sha256", "batch_size")
    assert differences(bare, bare) == ()
    found = differences(bare, bare | {"command": "python other.py"})
    assert breaks(*found) == [("data", "unknown"), ("batch_size", "unknown"), ("command", "no")]
    # Changed code may affect learning.
    coded = bare | {"code": "train.py a"}
    [difference] = differences(coded, coded | {"code": "train.py b"})
    assert breaks(difference) == [("code", "learning")]
    assert difference.text == "code is train.py a in run 1 and train.py b in run 2"
    assert differences(coded, coded, bare) == ()


def test_breaking_differences_come_first() -> None:
    targetless = without(make_facts(cpu="a", learning_rate="0.1"), "target")
    diffs = differences(targetless, make_facts(cpu="b", learning_rate="0.2", batch_size="64"))
    first, last = [("batch_size", "yes"), ("target", "unknown")], [("cpu", "no")]
    assert breaks(*diffs) == [*first, ("learning_rate", "learning"), *last]
    assert diffs[2].text.endswith("0.1 in run 1 and 0.2 in run 2")
    assert diffs[3].text == "cpu is a in run 1 and b in run 2"
    assert are_comparable(diffs) == "no"
    # An option of only one run is not a difference.
    assert not differences(make_facts(1), make_facts(4, learning_rate="0.1"))


def test_unequal_worker_resources_invalidate_scaling() -> None:
    two_each = make_facts(1, threads="2", num_cpus="2")
    diffs = differences(two_each, make_facts(2, threads="1", num_cpus="1", cpu="b"))
    assert breaks(*diffs) == [("threads", "scaling"), ("num_cpus", "scaling")]
    effect = "speed-up and efficiency are not those of the number of workers"
    assert diffs[0].text == f"threads is 2 in run 1 and 1 in run 2: {effect}"
    assert are_comparable(diffs) == "yes"
    # Scaling is valid if all numbers of workers have the same resources.
    every = [make_facts(n, threads=cores, num_cpus=cores) for n in (1, 2) for cores in ("1", "2")]
    assert breaks(*differences(*every)) == [("threads", "no")]


def test_the_runs_own_targets_are_named_if_another_one_is_used() -> None:
    own = [make_facts(own_target=target, target=target) for target in ("acc >= 97", "acc >= 90")]
    assert breaks(*differences(*own)) == [("target", "yes")]
    asked = [facts | {"target": "acc >= 80"} for facts in own]
    assert breaks(*differences(*asked)) == [("own_target", "no")]


def group(results: Sequence[Result], **more: dict[str, str]) -> tuple[Group, ...]:
    """Return the groups of runs. ``run_7`` adds facts of run 7 to the default ones."""
    own = {run.run_id: more.get(f"run_{run.run_id}", {}) for run in results}
    facts = {run.run_id: make_facts(run.num_workers, **own[run.run_id]) for run in results}
    return compare(results, facts).groups


def test_groups_are_ordered_by_workers() -> None:
    one, four = group([reaching(5, 4, 3.0), reaching(1, 1, 10.0), reaching(2, 4, 3.5)])
    assert (one.label, one.num_workers, one.run_ids) == ("1 worker", 1, (1,))
    assert (four.label, four.num_workers, four.run_ids) == ("4 workers", 4, (5, 2))


def test_speed_up_and_efficiency_are_relative_to_the_first_group() -> None:
    measured: Any = {1: (100.0, [9, 10, 11]), 2: (180.0, [5, 6.25, 7.5]), 4: (300.0, [4, 5, 6])}
    pairs = ((n, rate, seconds) for n, (rate, times) in measured.items() for seconds in times)
    runs = [reaching(i, n, s, samples_per_second=rate) for i, (n, rate, s) in enumerate(pairs)]
    base, two, four = group(runs)
    assert (base.speedup, base.efficiency) == (1.0, 1.0)
    assert (base.throughput_speedup, base.throughput_efficiency) == (1.0, 1.0)
    assert (two.speedup, two.efficiency) == (10 / 6.25, 0.8)
    assert (four.speedup, four.efficiency) == (2.0, 0.5)
    assert (two.throughput_speedup, two.throughput_efficiency) == (1.8, 0.9)
    assert (four.throughput_speedup, four.throughput_efficiency) == (3.0, 0.75)


def test_a_group_with_a_missed_target_has_no_mean() -> None:
    [found] = group([reaching(1, 1, 10.0), make_result(2), reaching(3, 1, 12.0)])
    assert (found.reached, found.run_ids) == (2, (1, 2, 3))
    times = known(found.training_seconds_to_target)
    assert (times.count, times.mean, times.median) == (2, None, 12.0)
    assert known(found.wall_seconds_to_target).mean is None
    workers = known(found.worker_seconds)
    assert (workers.count, workers.mean) == (2, 11.0)


def test_phases_are_the_mean_of_the_runs_that_have_them() -> None:
    both = make_result(1, phases={"forward": 2.0, "communication": 1.0})
    [found] = group([both, make_result(2, phases={"forward": 4.0}), make_result(3)])
    assert found.phases == {"forward": 3.0, "communication": 0.5}


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        # Labels use as few facts as possible.
        ("backend=gloo cpu=x", "backend=nccl cpu=x", ["backend gloo", "backend nccl"]),
        ("backend=nccl cpu=x", "backend=nccl cpu=y", ["cpu x", "cpu y"]),
        # A setting is preferred to the command that contains it.
        ("command=a--lr=1 lr=1", "command=a--lr=2 lr=2", ["lr 1", "lr 2"]),
        # A setting is preferred to the code, and the code to a fact of the machine.
        ("code=a cpu=1 lr=1", "code=b cpu=2 lr=2", ["lr 1", "lr 2"]),
        ("code=a cpu=a", "code=b cpu=b", ["code a", "code b"]),
        ("num_cpus=1", "max_bandwidth=1", ["1 core each, any Mbit/s", "any cores each, 1 Mbit/s"]),
        ("loss_percent=1", "latency_ms=5", ["1 % lost", "5 ms late"]),
    ],
)
def test_labels_distinguish_groups(first: str, second: str, labels: list[str]) -> None:
    one, other = (dict(fact.split("=", 1) for fact in run.split()) for run in (first, second))
    found = group([make_result(1), make_result(2)], run_1=one, run_2=other)
    assert [group.label for group in found] == [f"1 worker, {label}" for label in labels]


@pytest.mark.parametrize("reported", [False, True])
def test_runs_of_own_code_are_grouped_by_settings_but_not_by_seeds(reported: bool) -> None:
    runs, facts = [], {}
    for run_id, (rate, seed) in enumerate(product(("0.02", "0.2"), (0, 1, 2)), 1):
        command = f"/venv/bin/python train_t.py --lr {rate} --seed {seed}"
        settings = {"learning_rate": float(rate), "data_seed": seed} if reported else None
        row = make_run(id=run_id, benchmark="", command=command, settings=settings)
        runs.append(reaching(run_id, 2, 10 * float(rate) + seed / 10))
        facts[run_id] = attributes_of(row, [], runs[-1])
    found = compare(runs, facts)
    assert [group.run_ids for group in found.groups] == [(1, 2, 3), (4, 5, 6)]
    name = "learning rate" if reported else "lr"
    labels = [f"2 workers, {name} {rate}" for rate in ("0.02", "0.2")]
    assert [group.label for group in found.groups] == labels
    assert found.comparable == "yes"


@pytest.mark.parametrize(
    ("some", "others"),
    [
        ("train.py --amp", "train.py"),
        ("train.py --lr 1", "train.py"),
        ("train.py --num-workers 1", "train.py --num-workers 2"),
        ("train.py --layers 1 2", "train.py --layers 1 3"),
    ],
)
def test_different_options_of_own_code_form_different_groups(some: str, others: str) -> None:
    rows = [make_run(id=i, benchmark="", command=text) for i, text in enumerate((some, others), 1)]
    runs = [reaching(row.id, 2, 1.0) for row in rows]
    facts = {row.id: attributes_of(row, [], run) for row, run in zip(rows, runs, strict=True)}
    assert [group.run_ids for group in compare(runs, facts).groups] == [(1,), (2,)]


def test_runs_are_grouped_by_the_requested_attributes() -> None:
    pairs = enumerate(product("12", "34"), 1)
    facts = {i: make_facts(2, learning_rate=rate, dropout=drop) for i, (rate, drop) in pairs}
    runs = [reaching(run_id, 2, 1.0 + run_id) for run_id in facts]
    assert len(compare(runs, facts).groups) == 4
    by_rate = compare(runs, facts, group_by=["learning_rate"])
    labels = ["2 workers, learning rate 1", "2 workers, learning rate 2"]
    assert [group.label for group in by_rate.groups] == labels
    assert [group.run_ids for group in by_rate.groups] == [(1, 2), (3, 4)]
    assert [difference.name for difference in by_rate.differences] == ["learning_rate", "dropout"]
    [both] = compare(runs, facts, group_by=["lr"]).groups
    assert both.run_ids == (1, 2, 3, 4)
    assert "no run states lr, by" in compare(runs, facts, group_by=["lr"]).caution
    # A swept option that is not in group_by does not separate groups.
    options = [{"dropout": facts[run.run_id]["dropout"], "latency": "5"} for run in runs]
    swept = [replace(run, swept=swept) for run, swept in zip(runs, options, strict=True)]
    found = compare(swept, facts, group_by=["learning_rate"])
    assert [group.swept for group in found.groups] == [{"latency": "5"}] * 2
    assert compare([replace(r, target=None) for r in runs[:1]], facts, group_by=["x"]).groups


def test_a_run_that_failed_early_joins_a_group_with_matching_facts() -> None:
    results = [make_result(1, state="FAILED"), reaching(2, 1, 10.0), reaching(3, 2, 6.0)]
    facts = {one.run_id: make_facts(one.num_workers, learning_rate="0.1") for one in results}
    facts[1] = {name: facts[1][name] for name in SHAPE}
    found = compare(results, facts).groups
    assert [one.run_ids for one in found] == [(1, 2), (3,)]
    assert found[0].reached == 1


def test_equal_worker_counts_have_a_speed_up_but_no_efficiency() -> None:
    runs = [reaching(1, 2, 10.0), reaching(2, 2, 5.0)]
    slow, fast = group(runs, run_1={"learning_rate": "0.1"}, run_2={"learning_rate": "0.2"})
    assert (slow.speedup, fast.speedup) == (1.0, 2.0)
    assert (slow.efficiency, fast.efficiency, fast.doubt) == (None, None, "")


def test_an_efficiency_above_105_percent_is_doubtful() -> None:
    one, usual, odd = group([reaching(1, 1, 21.0), reaching(2, 2, 10.0), reaching(3, 3, 2.0)])
    assert (one.doubt, usual.doubt) == ("", "")
    efficiency = "the efficiency of 3 workers by time to target, 350 %"
    assert odd.doubt.startswith(f"{efficiency}, is hardly that of its workers")
    slow = reaching(1, 1, 21.0, disturbed=("rank 0 waited",))
    one, odd = group([slow, reaching(3, 3, 2.0)])
    assert one.disturbed == 1
    assert odd.doubt.endswith("workers: 1 worker was disturbed in 1 of 1 run")


@pytest.mark.parametrize(("name", "value"), [("target", "acc >= 90"), ("data_sha256", "d2")])
def test_groups_with_other_data_or_another_target_have_no_speed_up(name: str, value: str) -> None:
    runs = [reaching(n, n, 10.0 / n, samples_per_second=100.0 * n) for n in (1, 2)]
    base, two = group(runs, run_2={name: value})
    assert base.speedup == 1.0
    assert (two.speedup, two.efficiency) == (None, None)
    assert (two.throughput_speedup, two.throughput_efficiency) == (None, None)


def test_groups_with_different_seeds_did_different_work() -> None:
    results = [reaching(run, 1 + run % 2, 10.0) for run in range(1, 5)]
    seeds = {1: "1", 2: "1", 3: "8", 4: "2"}
    facts = {run: make_facts(1 + run % 2, seed=seed) for run, seed in seeds.items()}
    [found] = compare(results, facts).differences
    assert (found.name, found.breaks) == ("seed", "learning")
    assert found.text == "seed is 1, 2 for 1 worker and 1, 8 for 2 workers: not the same work"
    facts[3]["seed"] = "2"
    assert not compare(results, facts).differences
    # The seeds of many groups are listed in one line.
    results = [reaching(run, run, 10.0) for run in range(1, 21)]
    facts = {run: make_facts(run, seed="1" if run < 15 else str(run)) for run in range(1, 21)}
    [found] = compare(results, facts).differences
    told = "1 for 14 groups and 15 for 15 workers and others for the rest"
    assert found.text == f"seed is {told}: not the same work"


def test_comparable_runs() -> None:
    said = judge(make_matrix((1, 2), 1))
    same = "They have the same data, target and batch size, as far as they state them."
    assert said.sentence == f"These runs can be compared. {same}" == f"{said.title}. {said.why}"
    assert (said.reasons, said.differences, said.rule_violations) == ((), (), ())
    alone = judge(make_comparison([make_aimless(1)]))
    assert (alone.sentence, alone.title) == ("", "Two runs make a comparison")


def test_the_fastest_group_has_the_lowest_mean_time() -> None:
    matrix = make_matrix((1, 2, 4), 2)
    fastest = known(judge(matrix).fastest)
    assert (fastest.group, fastest.slowest) == (2, 0)
    assert fastest.times_faster == pytest.approx(4**0.8)
    other = replace(matrix.results[0], target=Target("loss", 1.0, lower_is_better=True))
    assert judge(replace(matrix, results=(other, *matrix.results[1:]))).fastest is None
    disturbed = replace(matrix.results[0], disturbed=("rank 0 waited",))
    findings = judge(replace(matrix, results=(disturbed, *matrix.results[1:])))
    # The verdict states that contention may explain the lead.
    assert (findings.verdict, known(findings.fastest).group) == ("disturbed", 2)
    assert judge(replace(matrix, groups=matrix.groups[:1])).fastest is None


def test_the_lead_of_the_fastest_group_is_tested_against_the_slowest_and_the_second() -> None:
    sweep = make_sweep(repeats=5)
    groups, fastest = sweep.groups, known(sweep.findings.fastest)
    assert fastest.measure == "training_seconds_to_target"
    assert groups[fastest.group].swept == {"exchange": "topk", "bandwidth": "100"}
    assert groups[fastest.slowest].swept == {"exchange": "flat", "bandwidth": "5"}
    assert groups[known(fastest.second)].swept == {"exchange": "topk", "bandwidth": "20"}
    # Six groups form 15 pairs.
    assert fastest.p == pytest.approx(15 * 2 / math.comb(10, 5))
    assert not fastest.can_tell
    pair = known(make_matrix((1, 2), 5).findings.fastest)
    assert (pair.second, pair.second_p) == (None, None)
    assert pair.p == pytest.approx(2 / math.comb(10, 5))
    assert pair.can_tell
    lone = known(make_matrix((1, 2), 1).findings.fastest)
    assert (lone.p, lone.second) == (None, None)


def test_without_a_time_the_highest_throughput_is_the_fastest() -> None:
    matrix = make_matrix((1, 2, 4), 2)
    missed = [replace(group, training_seconds_to_target=None) for group in matrix.groups]
    fastest = known(judge(replace(matrix, groups=tuple(missed))).fastest)
    assert (fastest.group, fastest.slowest, fastest.measure) == (2, 0, "samples_per_second")
    rates = [known(known(group.samples_per_second).mean) for group in missed]
    assert fastest.times_faster == pytest.approx(rates[2] / rates[0])


def test_swept_data_is_comparable_but_has_no_fastest_group() -> None:
    facts = {1: make_facts(), 2: make_facts(data_sha256="d2"), 3: make_facts(data_sha256="d2")}
    assert find_differences(normalize(facts), ["dataset"]) == ()
    results = [replace(make_result(i, 1), swept={"dataset": str(min(i, 2))}) for i in facts]
    comparison = compare(results, facts)
    assert comparison.findings.reasons == ()
    assert comparison.findings.fastest is None


def test_an_unfinished_sweep_of_cores_does_not_invalidate_scaling() -> None:
    runs = enumerate([(1, "1"), (1, "2"), (2, "1")], 1)
    cores = ("num_cpus", "threads", "cpu_limit")
    facts = {i: make_facts(workers) | dict.fromkeys(cores, n) for i, (workers, n) in runs}
    unplanned = find_differences(normalize(facts))
    assert {difference.breaks for difference in unplanned} == {"scaling"}
    assert find_differences(normalize(facts), ["cpus"]) == ()


def test_reasons_come_before_other_differences() -> None:
    texts = ["batch_size is 32 and 64", "run 2 does not state its data"]
    texts += ["momentum is 0 and 0.9", "cpu is a and b"]
    diffs = (
        make_difference("batch_size", "yes", texts[0]),
        make_difference("data", "unknown", texts[1]),
        make_difference("momentum", "learning", texts[2]),
        make_difference("cpu", "no", texts[3]),
    )
    findings = judge(replace(make_matrix((1, 2), 1), comparable="no", differences=diffs))
    differ = "They differ in what a result depends on:"
    assert findings.sentence == f"These runs cannot be compared. {differ}"
    assert findings.reasons == (*texts[:2],)
    assert (findings.learning, findings.differences) == ((texts[2],), (texts[3],))
    assert findings.learned_by == "What is learned may differ by: momentum."
    assert findings.fastest is None


def test_a_rule_violation_is_listed_once_for_all_its_runs() -> None:
    comparison = make_matrix((1, 2), 2)
    changed, target = "the code has changes", "its target is 90"
    violations = [(changed,), (), (changed,), (changed, target)]
    pairs = zip(comparison.results, violations, strict=True)
    results = tuple(replace(result, rule_violations=texts) for result, texts in pairs)
    said = judge(replace(comparison, results=results))
    assert said.rule_violations == ("runs 1, 3, 4: the code has changes", "run 4: its target is 90")


def test_the_verdict_mentions_a_disturbed_run() -> None:
    comparison = make_matrix((1, 2), 1)
    first = replace(comparison.results[0], disturbed=("rank 0 waited for a core",))
    disturbed = replace(comparison, results=(first, comparison.results[1]))
    said = judge(disturbed)
    assert said.sentence.endswith("cores that other processes had, or were profiled.")
    assert said.disturbed == ("run 1: rank 0 waited for a core",)
    scaling = make_difference("threads", "scaling", "threads is 1 and 2")
    assert judge(replace(disturbed, differences=(scaling,))).verdict == "scaling"
    assert judge(replace(disturbed, comparable="no")).verdict == "no"


def test_official_scores_and_too_fast_convergence_are_noted() -> None:
    matrix = make_matrix((1, 2), 1)
    fast = Convergence(128, 6.0, 9.8, 9.2, True, 1.6, "they took 6 epochs")
    score = Score("set", (1, 2), 7.0, 11.2, "official score of set set: 7 s")
    scored = replace(matrix.groups[1], score=score, convergence=fast)
    usual = replace(matrix.groups[0], convergence=replace(fast, is_too_fast=False))
    notes = judge(replace(matrix, groups=(usual, scored))).notes
    assert notes[:2] == (f"2 workers: {score.text}", f"2 workers: {fast.text}")


def test_significance_in_a_large_sweep_is_summarised_in_one_sentence() -> None:
    many, few = make_sweep((1, 2), 3), make_sweep((2,), 2)
    caution, note = judge(many).notes
    assert caution.startswith("with 3 runs of a group, no difference is significant")
    test = "p < 0.05, Mann-Whitney, corrected for multiple comparisons"
    assert note == f"0 of 11 groups differ from their baseline ({test})"
    notes = judge(few).notes
    pair = "exchange flat, bandwidth 20 and exchange flat, "
    assert notes[1].startswith(f"no significant difference between {pair}")
    assert len(notes) == 6
