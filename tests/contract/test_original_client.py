"""MLBench's original client, unchanged, drives the master: each of its methods, over HTTP."""

import io
import json
import shlex
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.conftest import Original, RaisedError, run_to_end

_TRAINING = Path(__file__).with_name("original_training.py")
_BEGIN = datetime(2018, 8, 3, 9, 21, 29, 347960)
_PREC = "val_global_Prec@1 @ 0"
CUSTOM = {"custom_image_name": "none/needed", "custom_image_command": "true"}


def values(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["value"] for entry in entries]


def post_series(original: Original, run_id: int, name: str, count: int) -> None:
    """Post 0, 1, 2…, a second apart."""
    for i in range(count):
        date = _BEGIN + timedelta(seconds=i)
        assert original.call("post_metric", run_id, name, i, date=date).status == 201


# --- Metrics. ---


def test_values_come_back_as_they_were_posted(original: Original, ended_run: int) -> None:
    posted = [0.1, 1e-300, 123456789012345678, -2, "", "a text: ünï, 100 %&=+", "True"]
    for i, value in enumerate(posted):
        date = _BEGIN + timedelta(seconds=i)
        got = original.call("post_metric", ended_run, _PREC, value, date=date)
        assert got.status == 201
        assert got.json["name"] == _PREC
        assert got.json["value"] == str(value)
        assert got.json["cumulative"] is False

    entries = original.call("get_run_metrics", ended_run).json[_PREC]
    assert values(entries) == [str(value) for value in posted]
    assert entries[0]["date"] == "2018-08-03T09:21:29.347960Z"
    assert entries[1]["date"] == "2018-08-03T09:21:30.347960Z"


def test_some_numbers_come_back_in_prometheuss_spelling(original: Original, ended_run: int) -> None:
    for i, value in enumerate([41.0, "0.10", "nan", "inf", "-inf"]):
        date = _BEGIN + timedelta(seconds=i)
        assert original.call("post_metric", ended_run, "a", value, date=date).status == 201
    entries = original.call("get_run_metrics", ended_run).json["a"]
    assert values(entries) == ["41", "0.1", "NaN", "+Inf", "-Inf"]


def test_metadata_and_dates_of_a_value(original: Original, ended_run: int) -> None:
    metadata = "{rank: 0, epoch:1.5}"
    got = original.call("post_metric", ended_run, "b", 3, cumulative=True, metadata=metadata)
    assert (got.status, got.json["cumulative"], got.json["metadata"]) == (201, True, metadata)
    [entry] = original.call("get_run_metrics", ended_run).json["b"]
    assert entry["value"] == "3"
    assert entry["cumulative"] is True
    assert entry["metadata"] == metadata
    # Its own date is that of the call.
    age = datetime.now(UTC) - datetime.fromisoformat(entry["date"])
    assert timedelta() < age < timedelta(minutes=1)


def test_selections(original: Original, ended_run: int) -> None:
    post_series(original, ended_run, _PREC, 6)
    post_series(original, ended_run, "other", 2)

    def get(**selection: object) -> Any:
        got = original.call("get_run_metrics", ended_run, **selection)
        assert got.status == 200
        assert got.headers["Content-Type"] == "application/json"
        return got.json

    assert get().keys() == {_PREC, "other"}
    assert get(metric_filter=_PREC).keys() == {_PREC}
    assert get(metric_filter="nothing") == {}
    assert values(get(last_n=2)[_PREC]) == ["4", "5"]
    # Newer than that, so without it.
    assert values(get(since=_BEGIN + timedelta(seconds=3))[_PREC]) == ["4", "5"]
    assert values(get(since=(_BEGIN + timedelta(seconds=3)).replace(tzinfo=UTC))[_PREC]) == [
        "4",
        "5",
    ]
    assert get(since=datetime.now(UTC)) == {}
    assert [float(value) for value in values(get(summarize=3)[_PREC])] == [0.5, 2.5, 4.5]
    last = get(metric_filter=_PREC, since=_BEGIN, summarize=100, last_n=1)
    assert values(last[_PREC]) == ["5"]


def test_pods_and_their_metrics(original: Original) -> None:
    got = original.call("get_worker_pods")
    assert got.status == 200
    names = [pod["name"] for pod in got.json]
    assert names == ["local-mlbench-worker-0", "local-mlbench-worker-1"]
    assert all({"name", "labels", "phase", "ip"} <= pod.keys() for pod in got.json)

    post = original.call("get_pod_metrics", names[0], since=_BEGIN, summarize=2)
    assert post.status == 200
    assert all(len(entries) <= 2 for entries in post.json.values())
    everything = original.call("get_all_metrics")
    assert everything.status == 200
    assert everything.json.keys() >= set(names)


def test_wrong_metrics_get_clear_answers(original: Original) -> None:
    for got in (
        original.call("get_run_metrics", 9_999_999),
        original.call("get_pod_metrics", "no-such-pod"),
        original.call("download_run_metrics", 9_999_999),
        original.call("post_metric", 9_999_999, "a", 1),
    ):
        assert got.status == 404
        assert got.json["status"] == 404
        assert "there is no" in got.json["message"]
    got = original.call("post_metric", "", "a", 1)
    assert got.status == 400
    assert got.json["message"].startswith("run_id: ")


def test_the_zip_of_a_run_without_a_result(original: Original, ended_run: int) -> None:
    post_series(original, ended_run, "loss", 4)
    got = original.call("download_run_metrics", ended_run, since=_BEGIN, summarize=2)
    assert got.status == 200
    assert got.headers["Content-Disposition"] == 'attachment; filename="metrics_nothing.zip"'
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        results = [name for name in archive.namelist() if not name.startswith("local-")]
        assert results == ["result_loss.json"]
        assert len(json.loads(archive.read("result_loss.json"))) <= 2


# --- Runs. ---


@pytest.mark.slow
def test_a_training_with_the_original_tracker(original: Original, http: httpx.Client) -> None:
    """All ranks run the command, their reports arrive, and the zip holds them."""
    command = [original.python, str(_TRAINING), original.url]
    got = original.call(
        "create_run",
        "original-training",
        2,
        num_cpus=1.0,
        max_bandwidth=1000,
        custom_image_name="registry.example/org/image:tag",
        custom_image_command=f"{shlex.join(command)} {{run_id}} {{rank}} {{hosts}} {{backend}}",
        backend="GLOO",
        run_all_nodes=False,
        gpu_enabled=False,
        light_target=False,
    )
    assert got.status == 200, got.json
    run_id = got.json["id"]
    assert got.json["image"] == "registry.example/org/image:tag"
    assert original.call("create_run", "second", 1, **CUSTOM).status == 409
    assert original.call("delete_run", run_id).status == 409

    run = run_to_end(http, run_id)
    assert run["state"] == "FINISHED", run["reason"]
    assert [rank["exit_code"] for rank in run["ranks"]] == [0, 0]
    for rank in (0, 1):
        log = http.get(f"/api/runs/{run_id}/logs/", params={"rank": rank}).json()["text"]
        told, _, hosts = log.splitlines()[0].rpartition(" ")
        assert told == f"rank {rank} of run {run_id} with gloo on"
        assert hosts == "127.0.0.1,127.0.0.1"

    assert original.call("get_run", run_id).json == run
    assert run in original.call("get_runs").json
    metrics = original.call("get_run_metrics", run_id).json
    assert values(metrics[_PREC]) == ["20.5", "41", "61.5"]
    assert values(metrics["val_global_Prec@1 @ 1"]) == ["20.5", "41", "61.5"]
    assert [float(value) for value in values(metrics["train_loss @ 1"])] == [1, 1 / 2, 1 / 3]
    assert values(metrics["TaskResult @ 0"]) == ["reached 61.5"]
    assert float(metrics["global_cum_agg @ 0"][0]["value"]) > 0
    assert metrics["train_loss @ 1"][0]["metadata"] == "{rank: 1, epoch:0}"
    _check_archive(original, run, metrics)

    got = original.call("delete_run", run_id)
    assert (got.status, got.content) == (204, b"")
    for method in ("get_run", "get_run_metrics", "delete_run"):
        assert original.call(method, run_id).status == 404


def _check_archive(original: Original, run: dict[str, Any], metrics: dict[str, Any]) -> None:
    got = original.call("download_run_metrics", run["id"])
    assert got.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert files.pop("official_result.txt") == "reached 61.5"
    for name, entries in metrics.items():
        if name == "TaskResult @ 0":
            continue
        written = json.loads(files.pop(f"result_{name}.json"))
        assert [(one["date"], one["value"]) for one in written] == [
            (one["date"], one["value"]) for one in entries
        ]
        assert all(one["cumulative"] is False for one in written)
    # What is left is of the pods, and of the time of the run.
    pods = {rank["pod"] for rank in run["ranks"]}
    assert {name.partition("_")[0] for name in files} == pods
    for pod in pods:
        entries = json.loads(files[f"{pod}_container_cpu_usage_seconds_total.json"])
        assert entries
        dates = [entry["date"] for entry in entries]
        assert run["created_at"] <= min(dates)
        assert max(dates) <= run["finished_at"]


@pytest.mark.parametrize(
    ("fields", "backend", "texts"),
    [
        ({"backend": "MPI"}, "mpi", ["alone", ""]),
        ({"custom_backend": "own", "run_all_nodes": False}, "own", ["alone", ""]),
        ({"custom_backend": "own", "run_all_nodes": True}, "own", ["alone", "alone"]),
        ({}, "gloo", ["alone", "alone"]),
    ],
)
def test_ranks_that_run_the_command(
    original: Original,
    http: httpx.Client,
    fields: dict[str, Any],
    backend: str,
    texts: list[str],
) -> None:
    command = {"custom_image_name": "none/needed", "custom_image_command": "printf alone"}
    got = original.call("create_run", "who", 2, num_cpus=1, **command, **fields)
    assert got.status == 200, got.json
    run = run_to_end(http, got.json["id"])
    assert run["state"] == "FINISHED", run["reason"]
    assert run["backend"] == backend
    path = f"/api/runs/{run['id']}/logs"
    logs = [http.get(path, params={"rank": rank}).json()["text"] for rank in (0, 1)]
    assert logs == texts


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"image": "PyTorch Language Modeling (AWD-LSTM)", "backend": "GLOO"}, "image_name"),
        ({"image": "PyTorch Cifar-10 ResNet-20", "backend": "NCCL"}, "backend"),
        ({"image": "PyTorch Cifar-10 ResNet-20", "backend": "MPI"}, "backend"),
        ({**CUSTOM, "num_cpus": 0.5}, "num_cpus"),
        ({**CUSTOM, "num_cpus": 4096.0}, "num_cpus"),
        ({**CUSTOM, "max_bandwidth": 100}, "max_bandwidth"),
        ({**CUSTOM, "gpu_enabled": True}, "gpu_enabled"),
        ({"custom_image_name": "none/needed"}, "custom_image_command"),
    ],
)
def test_impossible_orders_are_refused(
    original: Original, given: dict[str, object], field: str
) -> None:
    got = original.call("create_run", "refused", 1, **({"num_cpus": 1} | given))
    assert got.status == 400
    assert got.json["status"] == 400
    assert field in got.json["message"].partition(":")[0]


@pytest.mark.parametrize(
    ("image", "benchmark", "args"),
    [
        ("PyTorch Cifar-10 ResNet-20", "cifar10-resnet", {"exchange": "flat", "goal": "70"}),
        ("PyTorch Cifar-10 ResNet-20 (DDP)", "cifar10-resnet", {"exchange": "ddp", "goal": "70"}),
        (
            "PyTorch Linear Logistic Regression",
            "logistic-regression",
            {"model": "logistic", "goal": "80"},
        ),
    ],
)
def test_its_images_are_official_benchmarks(
    original: Original, http: httpx.Client, image: str, benchmark: str, args: dict[str, str]
) -> None:
    got = original.call(
        "create_run", "official", 2, num_cpus=1, image=image, backend="GLOO", light_target=True
    )
    assert got.status == 200, got.json
    assert (got.json["benchmark"], got.json["args"]) == (benchmark, {**args, "backend": "gloo"})
    assert got.json["run_all_nodes"] is True
    http.post(f"/api/runs/{got.json['id']}/stop/")
    run_to_end(http, got.json["id"])


def test_its_defaults_are_taken(original: Original, http: httpx.Client) -> None:
    """Its default bandwidth asks for nothing where none is limited; two cores are there."""
    got = original.call("create_run", "defaults", 1, **CUSTOM)
    assert got.status == 200, got.json
    assert got.json["num_cpus"] == 2
    assert got.json["max_bandwidth"] is None
    assert run_to_end(http, got.json["id"])["state"] == "FINISHED"


def test_an_unknown_image_is_refused_by_the_client(original: Original) -> None:
    with pytest.raises(RaisedError, match="not found"):
        original.call("create_run", "a", 1, image="nothing")
