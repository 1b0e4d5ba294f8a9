"""Calls about runs, pods and benchmarks: each against the real master."""

import platform
from importlib.metadata import version

import pytest

from mlbench import ApiClient
from mlbench.client import ApiError, Goal, Run
from tests.conftest import wait_for
from tests.mlbench.client.scripted import Reply, serving
from tests.mlbench.conftest import wait_for_end
from tests.stacks import order_steps


def test_a_run_is_described_in_full(finished: Run) -> None:
    assert (finished.name, finished.benchmark, finished.num_workers) == ("finished", "steps", 2)
    assert finished.args == {"steps": "200", "rate": "1000"}
    assert (finished.state, finished.active, finished.reason) == ("FINISHED", False, "")
    assert (finished.num_cpus, finished.max_bandwidth, finished.seed) == (None, None, None)
    assert [(rank.rank, rank.exit_code) for rank in finished.ranks] == [(0, 0), (1, 0)]
    assert finished.started_at is not None
    assert finished.finished_at is not None
    assert finished.created_at <= finished.started_at <= finished.finished_at
    assert finished.delivery is not None
    # Of each rank: 200 losses and steps; 2 epochs and the end with their totals and steps.
    assert finished.delivery.recorded == 2 * (200 * 2 + 2 * 4 + 3)
    assert finished.fields["job_id"]


def test_all_runs_are_listed_the_oldest_first(client: ApiClient, finished: Run, going: Run) -> None:
    ids = [run.id for run in client.get_runs().result().value]
    assert ids == sorted(ids)
    assert {finished.id, going.id} <= set(ids)
    newer = client.get_runs(from_id=going.id).result().value
    assert [run.id for run in newer] == [number for number in ids if number >= going.id]
    assert client.get_run(going.id).result().value.active


def test_an_answer_reads_as_code_for_mlbench_expects(client: ApiClient, finished: Run) -> None:
    answer = client.get_run(str(finished.id)).result()
    assert answer.status_code == 200
    assert answer.json() == answer.value.fields == finished.fields
    assert answer.content.startswith(b"{")


def test_the_events_of_a_run(client: ApiClient, finished: Run) -> None:
    events = client.get_run_events(finished.id).result().value
    assert [event.kind for event in events] == ["created", "ready", "started", "finished"]
    assert events[0].time == finished.created_at
    assert events[-1].time == finished.finished_at
    assert [event.attempt for event in events] == [0, 1, 1, 1]
    assert events[1].text == "2 workers are ready"


def test_a_run_is_stopped_and_deleted(client: ApiClient) -> None:
    run = order_steps(client, "to-stop", steps=6000, rate=100)
    wait_for(
        lambda: client.get_run_metrics(run.id, last_n=1).result().value, what="the run records"
    )
    with pytest.raises(ApiError, match="stop it first") as refused:
        client.delete_run(run.id).result()
    assert refused.value.status == 409
    client.stop_run(run.id).result()
    assert wait_for_end(client, run).state == "STOPPED"
    deleted = client.delete_run(run.id).result()
    assert (deleted.status_code, deleted.value) == (204, None)
    with pytest.raises(ApiError, match=f"no run {run.id}") as gone:
        client.get_run(run.id).result()
    assert gone.value.status == 404


def test_the_manifest_tells_what_a_run_ran_on(client: ApiClient, finished: Run) -> None:
    manifest = client.get_manifest(finished.id).result().value
    assert (manifest["run_id"], manifest["division"]) == (finished.id, "closed")
    [machine] = manifest["machines"]
    assert machine["ranks"] == [rank.rank for rank in finished.ranks]
    assert machine["hostname"] == platform.node()
    assert machine["packages"]["pytest"] == pytest.__version__
    for rank in manifest["ranks"]:
        # One machine has one clock.
        assert abs(rank["clock_offset_seconds"]) <= rank["clock_uncertainty_seconds"] + 1e-6
    with pytest.raises(ApiError, match="no run 999999"):
        client.get_manifest(999_999).result()


def test_the_pods_are_listed(client: ApiClient, finished: Run) -> None:
    pods = client.get_worker_pods().result().value
    assert [pod.name for pod in pods] == [rank.pod for rank in finished.ranks]
    assert {(pod.phase, pod.ip, pod.run_id) for pod in pods} == {("Running", "127.0.0.1", None)}
    # An agent is idle again once it was told that its exit is known.
    assert {pod.state for pod in pods} <= {"exited", "idle"}
    assert all(pod.seen_at and pod.seen_at > finished.created_at for pod in pods)
    assert all(pod.labels == pod.fields["labels"] for pod in pods)


def test_the_installation_says_what_it_is(client: ApiClient) -> None:
    info = client.get_info().result().value
    assert (info.version, info.pool, info.workers) == (version("mlbench"), "local", 2)
    assert (info.limits.workers, info.limits.whole_cpus) == (16, True)
    assert (info.limits.can_limit_bandwidth, info.limits.bandwidth) == (False, None)
    assert info.prometheus_url == info.fields["prometheus"]["url"]


def test_the_benchmarks_are_listed(client: ApiClient) -> None:
    benchmarks = client.get_benchmarks().result().value
    assert {"digits", "steps"} <= {benchmark.name for benchmark in benchmarks}
    assert all(benchmark.description for benchmark in benchmarks)
    [digits] = [one for one in benchmarks if one.name == "digits"]
    assert digits.goal == Goal("val_global_Prec@1", 97.0, lower_is_better=False)
    assert digits.light_goal == Goal("val_global_Prec@1", 90.0, lower_is_better=False)


def test_an_order_has_the_fields_of_the_api_and_only_those_that_were_given() -> None:
    run = {"id": 1, "name": "a", "state": "INITIALIZED", "reason": "", "num_workers": 4}
    run |= {"attempt": 0, "created_at": "", "started_at": None, "finished_at": None}
    run |= {"goal": None, "delivery": None, "ranks": [], "new_in_a_later_version": 1}
    with serving(Reply(201, run)) as master, ApiClient(url=master.url) as client:
        plain = client.create_run("a", 4).result().value
        client.create_run("a", 4, 0.5, 100, "resnet", "gloo", None, None, None, True, True, True)
        client.create_run(
            "a",
            4,
            custom_image_name="my/image",
            custom_image_command="python train.py",
            custom_backend="mine",
            seed=0,
            working_dir="/home/me",
            deadline_seconds=90.5,
            max_restarts=1,
            queue=True,
            args={"epochs": "3"},
        ).result()
    assert plain.fields["new_in_a_later_version"] == 1
    bodies = sorted((asked.body.decode() for asked in master.asked), key=len)
    assert bodies[0] == '{"name": "a", "num_workers": 4}'
    assert bodies[1] == (
        '{"name": "a", "num_workers": 4, "num_cpus": 0.5, "max_bandwidth": 100, '
        '"image_name": "resnet", "backend": "gloo", '
        '"run_all_nodes": true, "gpu_enabled": true, "light_target": true}'
    )
    assert bodies[2] == (
        '{"name": "a", "num_workers": 4, "image_name": "custom_image", '
        '"custom_image_name": "my/image", "custom_image_command": "python train.py", '
        '"backend": "custom_backend", "custom_backend": "mine", '
        '"args": {"epochs": "3"}, "seed": 0, "working_dir": "/home/me", '
        '"deadline_seconds": 90.5, "max_restarts": 1, "queue": true}'
    )


def test_arguments_that_exclude_each_other_are_refused(client: ApiClient) -> None:
    with pytest.raises(ValueError, match="image and custom_image_name exclude each other"):
        client.create_run("a", 2, image="one", custom_image_name="another")
    with pytest.raises(ValueError, match="backend and custom_backend exclude each other"):
        client.create_run("a", 2, backend="gloo", custom_backend="mine")


def test_a_refusal_names_the_field(client: ApiClient) -> None:
    with pytest.raises(ApiError, match="num_workers: at most 16") as refused:
        client.create_run("a", 17, benchmark="steps").result()
    assert refused.value.status == 400
