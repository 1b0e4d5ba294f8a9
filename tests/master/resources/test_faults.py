"""Fault injection: schedules, requests to agents, and reports."""

import json
import time
from typing import Any

import pytest
from falcon.testing import TestClient

from mlbench.contract.faults import MAX_FAULTS, fault_schedule
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import benchmark_sets, run_faults
from mlbench_master.settings import InstallationLimits
from tests.conftest import as_pod
from tests.master.resources.agents import poll_running
from tests.support.rows import make_ranks

pytestmark = pytest.mark.both_databases

_TEXT = "kill:every=2s"


def inject(api: TestClient, run_id: int, **body: Any) -> Any:
    return api.simulate_post(f"/api/runs/{run_id}/faults", json=body)


def report(api: TestClient, run: Run, number: int, pod: str, **more: Any) -> int:
    body = {"at": time.time(), "attempt": 1, **more}
    path = f"/api/workers/{pod}/runs/{run.id}/faults/{number}"
    answer = api.simulate_put(path, body=json.dumps(body), headers=as_pod(pod))
    return answer.status_code


def events(api: TestClient, run: Run) -> list[tuple[int, str]]:
    told = api.simulate_get(f"/api/runs/{run.id}/events").json
    return [(one["rank"], one["text"]) for one in told if one["kind"] == "fault"]


def test_a_schedule_starts_when_all_ranks_run(api: TestClient, run: Run) -> None:
    make_ranks(run, reported=False)
    planned = fault_schedule(_TEXT, 3, 2)
    Run.update(injected=run_faults.stored(planned)).execute()
    first = poll_running(api, run, 0)
    # Until then agents poll often, so that they know of a fault before it is due.
    assert (first["faults"], first["next_poll_seconds"]) == ([], 0.25)
    began = time.time()
    second = poll_running(api, run, 1)
    assert second["next_poll_seconds"] == 3
    soon = [fault for fault in planned if fault.seconds < 14]
    assert soon
    given = [*second["faults"], *poll_running(api, run, 0)["faults"]]
    seconds = sorted(fault["at"] - began for fault in given)
    assert seconds == pytest.approx([fault.seconds for fault in soon], abs=1)
    assert [fault["fault"] for fault in given] == ["kill"] * len(soon)


def test_nothing_is_injected_after_the_deadline(api: TestClient, run: Run) -> None:
    make_ranks(run, reported=False)
    planned = fault_schedule(_TEXT, 3, 2)
    its = {"started_at": time.time() - 20, "deadline_seconds": 80}
    Run.update(injected=run_faults.stored(planned), **its).execute()
    for rank in (0, 1):
        poll_running(api, run, rank)
    injected = Run.get_by_id(run.id).injected
    assert len(injected) == len(planned), "faults must keep their numbers"
    due = [fault["seconds"] for fault in injected if not fault["problem"]]
    assert due == pytest.approx([fault.seconds for fault in planned if fault.seconds < 60], abs=1)


def test_a_manual_fault_is_sent_and_reported_once(api: TestClient, run: Run) -> None:
    make_ranks(run)
    ordered = inject(api, run.id, fault="stop:5s", rank=1).json
    text = "Fault: stop:5s of rank 1, by hand, is due"
    assert (ordered["kind"], ordered["text"]) == ("fault", text)
    assert not poll_running(api, run, 0)["faults"]
    [fault] = poll_running(api, run, 1)["faults"]
    assert (fault["id"], fault["fault"]) == (1, "stop:5s")
    for status, pod, more in (
        (404, "w-0", {}),
        (404, "w-1", {"attempt": 2}),
        (400, "w-1", {"attempt": "x"}),
        (204, "w-1", {}),
        (204, "w-1", {"problem": "too late"}),
    ):
        assert report(api, run, 1, pod, **more) == status
    assert report(api, run, 2, "w-1") == 404
    assert not poll_running(api, run, 1)["faults"]
    assert events(api, run) == [(1, "Fault: stop:5s of rank 1, by hand")]


def test_a_fault_due_between_two_attempts_is_missed(api: TestClient, run: Run) -> None:
    make_ranks(run)
    inject(api, run.id, fault="kill", rank=1)
    [hand] = Run.get_by_id(run.id).injected
    Run.update(injected=[hand | {"due_at": time.time() - run_faults.LATE_SECONDS}]).execute()
    assert not poll_running(api, run, 1)["faults"]
    said = "Fault: kill of rank 1, by hand, did not happen: it had no process then"
    assert events(api, run) == [(1, said)]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"fault": "kil"}, 400, "fault: one of kill, stop:5s"),
        ({"fault": "kill:every=5s"}, 400, "fault: one of kill, stop:5s"),
        ({"fault": "oom"}, 400, "fault: oom: workers here have no memory of their own"),
        ({"fault": "disk-full"}, 400, "fault: disk-full: workers share their disk"),
        ({"fault": "network:3s"}, 400, "fault: network: the workers share this machine's"),
        ({"fault": "kill", "rank": 2}, 404, "rank: run {id} has workers 0 to 1"),
        ({"fault": "kill", "rank": -1}, 400, "rank: must be from 0 to 2147483647"),
        ({"rank": 0}, 400, "fault: required field is missing"),
    ],
)
def test_invalid_faults(
    api: TestClient, run: Run, body: dict[str, Any], status: int, says: str
) -> None:
    make_ranks(run)
    answer = inject(api, run.id, **body)
    assert answer.status_code == status
    assert answer.json["message"].startswith(says.format(id=run.id))


def test_faults_need_an_active_run_of_this_installation(api: TestClient, run: Run) -> None:
    make_ranks(run)
    Run.update(launcher="slurm").execute()
    assert "was started by slurm" in inject(api, run.id, fault="kill").json["message"]
    Run.update(launcher="").execute()
    Rank.update(exit_code=0).execute()
    assert inject(api, run.id, fault="kill").status_code == 409
    assert inject(api, 99, fault="kill").status_code == 404
    assert not Run.get_by_id(run.id).injected


def test_a_run_is_requested_with_a_fault_schedule(api: TestClient) -> None:
    order = {"name": "a", "benchmark": "digits", "num_workers": 2, "seed": 5, "faults": _TEXT}
    ordered = api.simulate_post("/api/runs", json=order).json
    assert (ordered["faults"], ordered["max_restarts"]) == (_TEXT, MAX_FAULTS)
    stored = Run.get_by_id(ordered["id"]).injected
    assert stored == run_faults.stored(fault_schedule(_TEXT, 5, 2))
    few = api.simulate_post("/api/runs", json={**order, "max_restarts": 3, "queue": True}).json
    assert few["max_restarts"] == 3
    for text, says in (
        ("kill", "faults: must be FAULT:every=TIME, e.g. kill:every=15s"),
        ("oom:every=5s", "faults: oom: workers here have no memory of their own"),
    ):
        answer = api.simulate_post("/api/runs", json={**order, "faults": text})
        assert answer.status_code == 400
        assert answer.json["message"].startswith(says)


def _seconds(seed: int) -> list[float]:
    return [fault.seconds for fault in fault_schedule(_TEXT, seed, 2)]


def test_a_set_registers_the_schedules_of_its_slots(api: TestClient) -> None:
    """Equal seeds have equal schedules, which are part of the plan's digest."""
    slots = [
        {"num_workers": 2, "seed": seed, "swept": {"batch_size": size, "faults": _TEXT}}
        for seed in (1, 2)
        for size in ("64", "128")
    ]
    order = {"name": "fails", "benchmark": "digits", "slots": slots}
    registered = api.simulate_post("/api/sets", json=order).json
    assert api.simulate_post("/api/sets", json=order).json == registered
    plan = [slot["faults"] for slot in registered["slots"]]
    assert plan[0] == plan[1] != plan[2] == plan[3]
    assert [fault["seconds"] for fault in plan[0]] == _seconds(1)
    benchmark_sets.submit("fails", 3, InstallationLimits())
    [run] = api.simulate_get("/api/runs").json
    assert (run["faults"], run["seed"]) == (_TEXT, 2)
    assert [fault["seconds"] for fault in Run.get_by_id(run["id"]).injected] == _seconds(2)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"benchmark": "steps", "slots": [{"num_workers": 2}]}, "faults: schedules are drawn from"),
        ({"official": True}, "official: runs with faults cannot be scored"),
    ],
)
def test_sets_with_unfit_faults(api: TestClient, changed: dict[str, Any], says: str) -> None:
    slots = [{"num_workers": 2, "seed": seed} for seed in range(10)]
    order = {"name": "fails", "benchmark": "digits", "slots": slots, "faults": _TEXT}
    answer = api.simulate_post("/api/sets", json=order | changed)
    assert answer.status_code == 400
    assert says in answer.json["message"]
