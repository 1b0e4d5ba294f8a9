"""The manifest of a run, before and after its ranks reported their machines."""

from dataclasses import asdict
from typing import Any

from mlbench.contract.records import Limits, RankOnMachine, ReportedMachine, Target
from mlbench_master.database.connection import store
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import run_manifest
from tests.support.rows import make_ranks, make_run


def state(run: Run, rank: int, **facts: Any) -> None:
    """Store the reported machine of a rank of the current attempt."""
    machine = asdict(ReportedMachine(**facts))
    where = (Rank.run == run, Rank.attempt == run.attempt, Rank.rank == rank)
    Rank.update(machine=machine).where(*where).execute()


def test_requested_settings(run: Run) -> None:
    own: dict[str, Any] = {"image": "me/train:1", "command": "python train.py", "seed": 3}
    own |= {"working_dir": "/code", "run_all_nodes": False}
    limits: dict[str, Any] = {"num_cpus": 1.5, "deadline_seconds": 60.0, "max_restarts": 1}
    document = run_manifest.build(make_run(benchmark="", **own, **limits))
    nothing = {"rule_violations": (), "started_at": None, "finished_at": None}
    assert vars(document).items() >= {"division": "open", **own, **nothing}.items()
    assert document.limits == Limits(num_workers=2, light_target=False, **limits)


def test_reported_settings_and_target(database: object) -> None:
    settings = {"batch_size": 128, "data": "digits", "data_sha256": "ab", "seed": 1}
    target: dict[str, Any] = {"metric": "a", "value": 1.0, "lower_is_better": True}
    said = run_manifest.build(make_run(settings=settings, target=target))
    assert (said.settings, said.target) == (settings, Target(**target))
    assert said.data == {"data": "digits", "data_sha256": "ab"}


def test_machines_are_unknown_before_they_are_reported(run: Run) -> None:
    waiting = make_run(state="INITIALIZED", attempt=0)
    assert (run_manifest.build(waiting).machines, run_manifest.build(waiting).ranks) == ((), ())
    make_ranks(run, image="worker@sha256:1")
    said = run_manifest.build(run)
    assert said.machines == ()
    assert said.ranks[1] == RankOnMachine(1, "w-1", None, "worker@sha256:1", (), None, None)


def test_equal_machines_are_merged(run: Run) -> None:
    make_ranks(run, ("w-0", "w-1", "w-2", "w-3"))
    state(run, 0, hostname="a", cpus=2, clock_offset_seconds=0.5)
    state(run, 1, hostname="a", cpus=4)
    state(run, 2, hostname="b", cpus=2, packages={}, clock_offset_seconds=-0.25)
    document = run_manifest.build(run)
    machines = [(machine.ranks, machine.hostname, machine.cpus) for machine in document.machines]
    assert machines == [((0, 2), None, 2), ((1,), "a", 4)]
    assert [rank.hostname for rank in document.ranks] == ["a", "a", "b", None]
    assert [rank.clock_offset_seconds for rank in document.ranks] == [0.5, None, -0.25, None]


def test_the_manifest_describes_the_latest_attempt(run: Run) -> None:
    make_ranks(run)
    state(run, 0, hostname="first")
    store(run, attempt=2)
    make_ranks(run, assignment={"cpus": [4, 5]})
    state(run, 1, hostname="second")
    document = run_manifest.build(run)
    assert document.attempts == 2
    assert [machine.hostname for machine in document.machines] == ["second"]
    assert [rank.cpus for rank in document.ranks] == [(4, 5), (4, 5)]


def test_a_missing_bandwidth_limit_is_a_rule_violation(database: object) -> None:
    limited = make_run(benchmark="steps", max_bandwidth=20.0)
    make_ranks(limited)
    state(limited, 0, bandwidth_limit=20.0)
    assert run_manifest.build(limited).rule_violations == ()
    state(limited, 1, bandwidth_limit=None)
    [sentence] = run_manifest.build(limited).rule_violations
    assert sentence == "the bandwidth of workers was not limited to 20 Mbit/s"
