"""Injected faults: their notation, and schedules generated from a seed."""

from statistics import fmean

import pytest

from mlbench.contract.faults import MAX_FAULTS, Fault, FaultError, Recurring, fault_schedule, parse


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *((kind, Fault(kind)) for kind in ("kill", "disk-full", "oom")),
        *(("stop:5s", Fault("stop", 5.0)), ("stop:250ms", Fault("stop", 0.25))),
        ("slow:50%", Fault("slow", None, 50.0)),
        ("slow:12.5%:2m", Fault("slow", 120.0, 12.5)),
        ("network:3s", Fault("network", 3.0)),
    ],
)
def test_faults_are_parsed(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    "text",
    [
        *("", "kil", "kill:5s", "stop", "stop:5", "stop:0s", "stop:2h", "slow", "slow:5s"),
        *("slow:100%", "slow:0%", "network", "network:50%:3s", "oom:1s", "kill:every=15s"),
        "kill\n",
    ],
)
def test_invalid_faults_are_refused(text: str) -> None:
    with pytest.raises(FaultError, match=r"one of kill, stop:5s|percentage must|duration must"):
        Fault.parse(text)


def test_recurring_faults_are_parsed() -> None:
    found = parse("kill:every=15s+stop:2s:every=1m")
    assert found == (Recurring("kill", 15.0), Recurring("stop:2s", 60.0))


@pytest.mark.parametrize(
    "text",
    ["kill", "kill:every=15", "kill:every=0.9s", "kill:every=1s+", "+".join(["kill:every=9s"] * 7)],
)
def test_a_missing_or_invalid_interval_is_refused(text: str) -> None:
    refusal = r"every=TIME, e\.g\. kill:every=15s|at least 1 s|at most 6"
    with pytest.raises(FaultError, match=refusal):
        parse(text)


def test_a_schedule_depends_only_on_its_seed() -> None:
    drawn = fault_schedule("kill:every=15s+stop:2s:every=1m", 7, 2)
    assert drawn == fault_schedule("kill:every=15s+stop:2s:every=1m", 7, 2)
    assert drawn != fault_schedule("kill:every=15s+stop:2s:every=1m", 8, 2)
    assert len(drawn) == MAX_FAULTS
    assert [one.seconds for one in drawn] == sorted(one.seconds for one in drawn)
    assert {one.rank for one in drawn} == {0, 1}
    assert {one.fault for one in drawn} == {"kill", "stop:2s"}


def test_compared_runs_have_the_same_times() -> None:
    """Schedules of registered sets are generated again for comparisons, also by later versions."""
    first = fault_schedule("kill:every=15s", 1, 2)
    known = [(47.771, 0), (56.768, 0), (71.013, 1)]
    assert [(one.seconds, one.rank) for one in first[:3]] == known
    eight = fault_schedule("kill:every=15s", 1, 8)
    assert [fault.seconds for fault in eight] == [fault.seconds for fault in first]
    doubled = [one.seconds for one in fault_schedule("kill:every=30s", 1, 2)]
    assert doubled == pytest.approx([2 * one.seconds for one in first], abs=0.002)


def test_intervals_have_the_given_mean_and_all_workers_are_hit_equally() -> None:
    """With 20,000 intervals, the mean is off by more than 3 % only once in 40,000 times."""
    schedules = [fault_schedule("kill:every=10s", seed, 4) for seed in range(200)]
    assert fmean(one[-1].seconds / MAX_FAULTS for one in schedules) == pytest.approx(10, rel=0.03)
    hit = [one.rank for schedule in schedules for one in schedule]
    assert all(hit.count(rank) / len(hit) == pytest.approx(1 / 4, abs=0.02) for rank in range(4))
