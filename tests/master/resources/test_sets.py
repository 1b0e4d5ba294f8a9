"""``/api/sets``: registration, runs and analysis of benchmark sets."""

from typing import Any

import pytest
from falcon.testing import Result, TestClient

from mlbench.contract import names
from mlbench_master.database.connection import store
from mlbench_master.database.models import Run
from mlbench_master.runs import benchmark_sets
from mlbench_master.settings import InstallationLimits
from tests.support.rows import QUIET, make_ranks

SLOTS = [{"num_workers": 2, "seed": 1}, {"num_workers": 1, "seed": 1}]
SET = {"name": "scaling", "benchmark": "digits", "args": {"epochs": 3}, "slots": SLOTS}


def register(api: TestClient, **fields: Any) -> Result:
    return api.simulate_post("/api/sets/", json=SET | fields)


def submit(api: TestClient, slot: int, name: str = "scaling") -> Any:
    """Submit the run of a slot like the controller, and return the newest run of a set."""
    benchmark_sets.submit(name, slot, InstallationLimits(workers=4, cpus=2))
    return next(run for run in reversed(api.simulate_get("/api/runs/").json) if run["set_name"])


def end(run: Any, state: str) -> None:
    Run.update(state=state, reason="because").where(Run.id == run["id"]).execute()


@pytest.mark.both_databases
def test_a_registered_set_determines_its_runs(api: TestClient) -> None:
    run_set = register(api, num_cpus=1).json
    assert run_set["order"] == {"benchmark": "digits", "args": {"epochs": "3"}, "num_cpus": 1.0}
    assert [slot["name"] for slot in run_set["slots"]] == ["scaling-w2-r1", "scaling-w1-r1"]
    assert api.simulate_get("/api/sets/").json == [run_set]
    run = submit(api, 2)
    fields = {"name": "scaling-w1-r1", "num_workers": 1, "seed": 1, "num_cpus": 1.0}
    fields |= {"set_name": "scaling", "slot": 2, "args": {"epochs": "3", "seed": "1"}}
    assert {name: run[name] for name in fields} == fields
    assert submit(api, 1)["id"] == run["id"], "one run at a time"
    end(run, "FAILED")
    assert submit(api, 2)["id"] == run["id"], "no second run until the set is resumed"
    assert api.simulate_post("/api/sets/scaling/stop/").json["state"] == "stopped"
    assert submit(api, 1)["id"] == run["id"]
    resumed = api.simulate_post("/api/sets/scaling/resume/").json
    assert (resumed["state"], resumed["waiting"]) == ("running", [1, 2])


@pytest.mark.both_databases
def test_a_deleted_run_stays_in_the_ledger(api: TestClient) -> None:
    register(api)
    run = submit(api, 1)
    end(run, "FAILED")
    assert api.simulate_delete(f"/api/runs/{run['id']}/").status_code == 204
    [trial] = api.simulate_get("/api/sets/scaling/").json["slots"][0]["trials"]
    assert trial == {
        **{"slot": 1, "run_id": run["id"], "seed": 1, "state": "FAILED", "reason": "because"},
        **{"disturbed": False, "deleted": True, "counts": False, "remark": "deleted"},
    }
    api.simulate_post("/api/sets/scaling/resume/")
    assert submit(api, 2)["slot"] == 2


def test_a_disturbed_run_is_not_replaced(api: TestClient) -> None:
    register(api)
    run = submit(api, 1)
    [rank, _] = make_ranks(Run.get_by_id(run["id"]))
    store(rank, interference=QUIET | {"waiting_seconds": 9.0})
    end(run, "FINISHED")
    slot = api.simulate_get("/api/sets/scaling/").json["slots"][0]
    assert (slot["is_open"], slot["trials"][0]["remark"]) == (False, "disturbed")


def test_a_set_is_registered_once(api: TestClient) -> None:
    run_set = register(api).json
    assert register(api).json == run_set
    for fields, was in (
        ({"args": {"epochs": 4}}, "args={'epochs': '3'}"),
        ({"slots": SLOTS[:1]}, "other slots"),
        ({"until_percent": 5}, "until_percent=None"),
    ):
        answer = register(api, **fields)
        message = f"name: set scaling is already registered with {was}. Choose another name."
        assert (answer.status_code, answer.json["message"]) == (409, message)


TEN = [{"num_workers": 1, "seed": i} for i in range(10)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"benchmark": "communication", "slots": [{"num_workers": 2}] * 10},
            "official: communication has no target, so its runs cannot be scored",
        ),
        ({"args": {"learning-rate": "1"}}, "args.learning_rate: must be 0.05 in an official set"),
        ({"args": {"goal": "95"}}, "args.goal: must be 97 or 90 in an official set"),
        (
            {"benchmark": "cifar10-resnet", "args": {"recipe": "one-cycle", "epochs": "164"}},
            "args.epochs: must be 8 in an official set (got 164)",
        ),
    ],
)
def test_official_sets_follow_rules(api: TestClient, fields: dict[str, Any], message: str) -> None:
    told = register(api, **{"official": True, "args": {}, "slots": TEN} | fields)
    assert (told.status_code, told.json["message"][: len(message)]) == (400, message)
    assert register(api, **{"args": {}, "slots": TEN} | fields).status_code == 200


def test_an_official_set_may_choose_free_settings(api: TestClient) -> None:
    chosen = {"exchange": "flat", "backend": "gloo"}
    light = register(api, official=True, args=chosen, slots=TEN, light_target=True)
    assert light.json["order"]["args"] == chosen
    own = {"image_name": "custom_image", "custom_image_name": "local", "custom_image_command": "b"}
    body = {"name": "own", "official": True, "slots": TEN, **own}
    assert api.simulate_post("/api/sets/", json=body).status_code == 200


def test_secrets_of_a_command_are_masked(api: TestClient) -> None:
    own = {"image_name": "custom_image", "custom_image_name": "local"}
    body = {"name": "own", "slots": [{"num_workers": 1}], **own}
    told = []
    for secret in ("hunter3", "hunter3", "hunter4"):
        body["custom_image_command"] = f"x --token {secret}"
        told.append(api.simulate_post("/api/sets/", json=body))
    assert [answer.status_code for answer in told] == [200, 200, 409]
    told.append(api.simulate_get("/api/sets/own/"))
    assert all("--token '***'" in answer.text and "hunter" not in answer.text for answer in told)
    run = submit(api, 1, name="own")
    assert Run.get_by_id(run["id"]).command == "x --token hunter3"


def test_unknown_sets_are_not_found(api: TestClient) -> None:
    assert api.simulate_get("/api/sets/other/").status_code == 404
    for act in ("stop", "resume"):
        answer = api.simulate_post(f"/api/sets/other/{act}/")
        assert (answer.status_code, answer.json["message"]) == (404, "name: set 'other' not found")


def slot(**swept: str) -> dict[str, Any]:
    values = {key.replace("_", "-"): value for key, value in swept.items()}
    return {"num_workers": 1, "seed": 1, "swept": values}


SWEPT = [slot(learning_rate=rate, cpus="1") for rate in ("0.1", "0.2")]


def test_a_run_of_a_sweep_has_its_swept_values(api: TestClient) -> None:
    found = register(api, slots=SWEPT).json
    assert [slot["name"] for slot in found["slots"]] == ["scaling-w1-c1-r1", "scaling-w1-c2-r1"]
    assert register(api, slots=SWEPT).json == found
    run = submit(api, 2)
    told = {"num_cpus": 1.0, "swept": {"learning-rate": "0.2", "cpus": "1"}}
    assert {name: run[name] for name in told} == told
    assert run["args"] == {"epochs": "3", "learning-rate": "0.2", "seed": "1"}


def swept(**values: str) -> dict[str, Any]:
    """Return the slots of a sweep with one run."""
    return {"slots": [slot(**values)]}


TWICE = "slots: seeds must be unique (got seed 1 twice)"
UNASKED = "swept.bandwidth: 1000 means no limit, because clients send"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"slots": [{"num_workers": 99}]}, "num_workers: must be at most 4 (got 99). Raise MLBEN"),
        ({"args": {"epochs": 0}}, "args.epochs: "),
        ({"name": 7}, "name: must be a string (got '7')"),
        ({"slots": []}, "slots: "),
        ({"slots": [*SLOTS, SLOTS[0]]}, TWICE),
        ({"num_workers": 2}, "num_workers: unknown field"),
        ({"official": True}, "official: each number of workers must have at least 10 slots (got 1"),
        ({"official": True, "until_percent": 5}, "until_percent: not allowed with official"),
        ({"until_percent": 100}, "until_percent: must be more than 0 and less than 100 (got '100'"),
        (swept(cpus="99"), "swept.cpus: must be at most"),
        (swept(cpus="many"), "swept.cpus: must be a number (got 'many')"),
        (swept(learning_rate="x"), "swept.learning-rate: "),
        (swept(speed="1"), "swept.speed: is not an option of this task"),
        (swept(epochs="1"), "swept.epochs: args.epochs is already set for all runs. Leave out one"),
        (swept(cpus="1") | {"num_cpus": 1}, "swept.cpus: num_cpus is already set for all runs. L"),
        *((swept(bandwidth=unasked), UNASKED) for unasked in ("1000", "1e3")),
        (swept(seed="1"), "swept.seed: each repeat has its own seed. Leave out this setting."),
        ({"slots": [*SWEPT, SLOTS[0]]}, "slots: swept must have the same keys in all"),
        ({"slots": [*SWEPT, SWEPT[0]]}, TWICE),
        ({"official": True, "slots": SWEPT * 5}, "official: sweeps cannot be scored"),
    ],
)
def test_invalid_sets_are_refused(api: TestClient, fields: dict[str, Any], message: str) -> None:
    answer = register(api, **fields)
    assert (answer.status_code, answer.json["message"][: len(message)]) == (400, message)
    assert api.simulate_get("/api/sets/").json == []


@pytest.mark.both_databases
def test_a_set_is_analyzed_over_its_swept_settings(api: TestClient) -> None:
    slots = [
        {"num_workers": 1, "seed": 1, "swept": {"learning_rate": rate}} for rate in ("0.1", "0.2")
    ]
    register(api, slots=slots)
    run = submit(api, 2)
    assert api.simulate_get("/api/sets/scaling/analysis/").json["slots_left"] == 2
    end(run, "FINISHED")
    took = {"started_at": 10.0, "finished_at": 40.0, "target_train_seconds": 12.5}
    Run.update(**took).where(Run.id == run["id"]).execute()
    analysis = api.simulate_get("/api/sets/scaling/analysis/").json
    name = "learning_rate 0.2, 1 worker"
    point = {"run_id": run["id"], "name": name, "values": ["0.2"], "figure": 12.5}
    assert analysis["points"] == [point]
    assert [axis["numbers"] for axis in analysis["axes"]] == [[0.1, 0.2]]
    assert (analysis["unit"], analysis["slots_left"], analysis["seconds_left"]) == ("s", 1, 30.0)
    assert api.simulate_get("/api/sets/none/analysis/").status_code == 404

    recorded = {"loss": {"min": 0.5, "max": 2.5, "last": 0.75}}
    recorded |= dict.fromkeys((names.TRAIN_SECONDS, "communication_seconds"), recorded["loss"])
    Run.update(figures={"metrics": recorded}).where(Run.id == run["id"]).execute()
    [values] = api.simulate_get("/api/sets/scaling/analysis/").json["last_values"]
    assert (values["name"], values["runs"]) == (name, 1)
    assert values["means"] == {"loss": {"count": 1, "mean": 0.75, "low": None, "high": None}}
