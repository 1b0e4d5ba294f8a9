"""Groups of runs: who belongs together, their means, and their speed-up, worked out by hand."""

from collections.abc import Sequence

import pytest

from master.results.compare import compare
from mlbench.results import Group, Result
from tests.master.results.making import make_facts, make_result, reaching


def group(results: Sequence[Result], **facts: dict[str, str]) -> tuple[Group, ...]:
    """Return the groups of runs; ``run_7`` has other facts than the usual ones."""
    return compare(
        results,
        {
            one.run_id: make_facts(one.num_workers, **facts.get(f"run_{one.run_id}", {}))
            for one in results
        },
    ).groups


def test_runs_of_one_kind_are_one_group_in_order_of_workers() -> None:
    found = group([reaching(5, 4, 3.0), reaching(1, 1, 10.0), reaching(2, 4, 3.5)])
    assert [(one.label, one.num_workers, one.run_ids) for one in found] == [
        ("1 worker", 1, (1,)),
        ("4 workers", 4, (5, 2)),
    ]


def test_speed_up_and_efficiency_are_against_the_first_group() -> None:
    one, two, four = group(
        [
            *(reaching(i, 1, s, samples_per_second=100.0) for i, s in enumerate([9, 10, 20])),
            *(reaching(i, 2, s, samples_per_second=180.0) for i, s in enumerate([5, 6.25, 7], 3)),
            *(reaching(i, 4, s, samples_per_second=300.0) for i, s in enumerate([4, 5, 6], 6)),
        ]
    )
    assert (one.speedup, one.efficiency) == (1.0, 1.0)
    assert (one.throughput_speedup, one.throughput_efficiency) == (1.0, 1.0)
    assert (two.speedup, two.efficiency) == (10 / 6.25, 0.8)
    assert (four.speedup, four.efficiency) == (2.0, 0.5)
    assert (two.throughput_speedup, two.throughput_efficiency) == (1.8, 0.9)
    assert (four.throughput_speedup, four.throughput_efficiency) == (3.0, 0.75)


def test_efficiency_counts_how_many_times_more_workers_there_are() -> None:
    two, eight = group([reaching(1, 2, 8.0), reaching(2, 8, 4.0)])
    assert (two.speedup, two.efficiency) == (1.0, 1.0)
    assert (eight.speedup, eight.efficiency) == (2.0, 0.5)


def test_a_run_that_did_not_reach_the_target_is_counted_as_the_slowest() -> None:
    [found] = group([reaching(1, 1, 10.0), make_result(2), reaching(3, 1, 12.0)])
    assert (found.reached, found.run_ids) == (2, (1, 2, 3))
    assert found.training_seconds_to_accuracy is not None
    assert found.training_seconds_to_accuracy.mean == 12.0
    assert found.wall_seconds_to_accuracy is not None
    assert found.wall_seconds_to_accuracy.mean == 17.0
    assert found.worker_seconds is not None
    assert (found.worker_seconds.count, found.worker_seconds.mean) == (2, 11.0)


def test_where_two_of_three_did_not_reach_it_there_is_no_speed_up() -> None:
    one, two = group(
        [reaching(1, 1, 10.0), make_result(2, 2), reaching(3, 2, 5.0), make_result(4, 2)]
    )
    assert two.reached == 1
    assert two.training_seconds_to_accuracy is not None
    assert two.training_seconds_to_accuracy.mean is None
    assert (one.speedup, two.speedup, two.efficiency) == (1.0, None, None)


def test_where_nobody_reached_it_there_are_no_times() -> None:
    [found] = group([make_result(1), make_result(2)])
    assert found.reached == 0
    assert found.training_seconds_to_accuracy is None
    assert (found.wall_seconds_to_accuracy, found.speedup, found.samples_per_second) == (None,) * 3


def test_phases_are_the_mean_of_the_runs_that_have_them() -> None:
    [found] = group(
        [
            make_result(1, phases={"forward": 2.0, "communication": 1.0}),
            make_result(2, phases={"forward": 4.0}),
            make_result(3),
        ]
    )
    assert found.phases == {"forward": 3.0, "communication": 0.5}


def test_a_label_names_as_little_as_tells_the_groups_apart() -> None:
    found = group(
        [make_result(1, 2), make_result(2, 2), make_result(3, 2), make_result(4, 4)],
        run_1={"backend": "gloo", "cpu": "x"},
        run_2={"backend": "nccl", "cpu": "x"},
        run_3={"backend": "nccl", "cpu": "y"},
        run_4={"backend": "gloo", "cpu": "x"},
    )
    assert [one.label for one in found] == [
        "2 workers, backend gloo",
        "2 workers, backend nccl, cpu x",
        "2 workers, backend nccl, cpu y",
        "4 workers",
    ]


def test_a_label_names_a_setting_rather_than_the_command_that_sets_it() -> None:
    found = group(
        [make_result(1), make_result(2)],
        run_1={"command": "train.py --rate 0.1", "learning_rate": "0.1"},
        run_2={"command": "train.py --rate 0.2", "learning_rate": "0.2"},
    )
    assert [one.label for one in found] == [
        "1 worker, learning_rate 0.1",
        "1 worker, learning_rate 0.2",
    ]


def test_cores_and_bandwidth_are_part_of_the_label_where_they_vary() -> None:
    found = group(
        [make_result(1), make_result(2), make_result(3)],
        run_1={"num_cpus": "1"},
        run_2={"max_bandwidth": "100"},
        run_3={"num_cpus": "1", "max_bandwidth": "100"},
    )
    assert [one.label for one in found] == [
        "1 worker, 1 core each, any Mbit/s",
        "1 worker, any cores each, 100 Mbit/s",
        "1 worker, 1 core each, 100 Mbit/s",
    ]


def test_a_run_that_failed_early_is_of_the_kind_that_it_does_not_contradict() -> None:
    results = [make_result(1, state="FAILED"), reaching(2, 1, 10.0), reaching(3, 2, 6.0)]
    facts = {one.run_id: make_facts(one.num_workers, learning_rate="0.1") for one in results}
    facts[1] = {name: facts[1][name] for name in ("num_workers", "num_cpus", "max_bandwidth")}
    found = compare(results, facts).groups
    assert [one.run_ids for one in found] == [(1, 2), (3,)]
    assert found[0].reached == 1


@pytest.mark.parametrize(("name", "value"), [("goal", "acc >= 90"), ("data_sha256", "d2")])
def test_nothing_is_faster_with_other_data_or_to_another_goal(name: str, value: str) -> None:
    one, two = group(
        [
            reaching(1, 1, 10.0, samples_per_second=100.0),
            reaching(2, 2, 5.0, samples_per_second=200.0),
        ],
        run_2={name: value},
    )
    assert one.speedup == 1.0
    assert (two.speedup, two.efficiency) == (None, None)
    assert (two.throughput_speedup, two.throughput_efficiency) == (None, None)


def test_the_results_stay_in_the_order_in_which_runs_were_named() -> None:
    results = [make_result(3, 4), make_result(1, 1), make_result(2, 2)]
    found = compare(results, {one.run_id: make_facts(one.num_workers) for one in results})
    assert found.results == tuple(results)
    assert found.comparable == "yes"
