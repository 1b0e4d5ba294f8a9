"""Unmodified MLBench training code with the published library reports all its metrics."""

import fcntl
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mlbench import ApiClient
from mlbench.contract.results import Result
from mlbench.local.home import Home
from tests.contract.conftest import Original
from tests.support.known import known
from tests.support.pages import commands, order_as_printed
from tests.support.stacks import assert_counted, kill_service, order_command, reload, run_to_end

_PROGRAMS = Path(__file__).with_name("original")
_PREC = "val_global_Prec@1 @ 0"
# The library reads the clock twice: when it stores a value and when it posts it.
_SAME_MOMENT_SECONDS = 0.05
_WORDS = " the quick brown fox jumps over the lazy dog and runs away \n" * 60

Metrics = dict[str, list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def port() -> Iterator[None]:
    """Lock port 29500, the library's fixed rendezvous port, against concurrent tests."""
    with (Path(tempfile.gettempdir()) / "mlbench-tests-port-29500").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.slow
def test_the_tutorial_reports_everything_though_the_master_is_killed(
    client: ApiClient, stack: Home, original: Original, original_python: str, tmp_path: Path
) -> None:
    for name in ("train_dist.py", "torchvision.py"):
        shutil.copy(_PROGRAMS / name, tmp_path)
    tutorial = _order(original, original_python, "train_dist.py", tmp_path)
    kill_service(stack, "gunicorn", "mlbench_master.controller")
    run, metrics, result = _finish(original, client, tutorial)
    _check_tutorial(metrics, result)
    _check_archive(original, run, metrics)
    log = client.get_logs(tutorial, 1).result().value.text
    named = f"run_id='{tutorial}', rank=1, hosts='127.0.0.1,127.0.0.1'"
    assert log.startswith(f"INFO:root:Started Training with Namespace({named})\n")
    assert original.call("delete_run", tutorial).status == 200
    assert original.call("get_run_metrics", tutorial).status == 404


@pytest.mark.slow
def test_a_program_like_task_1a_reports_everything(
    client: ApiClient, stack: Home, original: Original, original_python: str, tmp_path: Path
) -> None:
    page = "mlbench-core"
    run = order_as_printed(client, stack, page, tmp_path, venv=original_python)
    _, metrics, result = _finish(original, client, run.id)
    _check_task(metrics, result, stack.workers)
    of_main, of_train = (commands(page, script) for script in ("main.py", "train.py"))
    assert of_main.replace("main.py", "train.py") == of_train


@pytest.mark.slow
def test_parts_of_task_3_train_with_current_numpy_and_tqdm(
    client: ApiClient, original_python: str, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    shutil.copy(_PROGRAMS / "language_model.py", folder)
    (folder / "tqdm").symlink_to(Path(original_python).parents[1] / "tqdm/tqdm")
    data = tmp_path / "torch/wmt17"
    (data / "wikitext-2").mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (data / f"wikitext-2/wiki.{part}.tokens").write_text(_WORDS)
    # The real archive would be unpacked by each rank, while another rank may read the files.
    zipfile.ZipFile(data / "wikitext-2-v1.zip", "w").close()
    filled = "--run_id {run_id} --rank {rank} --hosts {hosts} --backend {backend}"
    command = f"{original_python} language_model.py {filled} --root-dataset {tmp_path}"
    run = order_command(client, "task-3", command, num_workers=2, working_dir=str(folder))

    ended = run_to_end(client, run, 100)

    assert ended.state == "FINISHED", ended.reason
    assert_counted(ended)
    result = client.get_result(run.id).result().value
    assert result.target is not None
    assert (result.target.metric, result.target.value) == ("val_global_Perplexity", 6)
    assert result.target.lower_is_better
    assert known(result.last_value) <= 6
    assert result.time_to_target is not None
    assert {"forward", "backward", "communication", "optimizer"} <= result.phases.keys()


def _order(original: Original, python: str, program: str, folder: Path) -> int:
    """Start a run on both workers with the original client; return its ID."""
    words = ("env", "-C", str(folder), python, program)
    options = ("--run_id", "{run_id}", "--rank", "{rank}", "--hosts", "{hosts}")
    answer = original.call(
        "create_run",
        "original-training",
        2,
        num_cpus=1.0,
        max_bandwidth=1000,
        custom_image_name="local",
        custom_image_command=" ".join([*words, *options]),
        backend="GLOO",
        run_all_nodes=False,
        gpu_enabled=False,
        light_target=False,
    )
    assert answer.status == 200, answer.json
    assert answer.json["image"] == "local"
    run_id: int = answer.json["id"]
    return run_id


def _finish(
    original: Original, client: ApiClient, run_id: int
) -> tuple[dict[str, Any], Metrics, Result]:
    """Wait for a run; return its record and metrics from the original client, and its result."""
    ended = run_to_end(client, client.get_run(run_id).result().value, 200)
    errors = client.get_logs(run_id, 0, "stderr").result().value.text
    assert ended.state == "FINISHED", f"{ended.reason}\n{errors}"
    assert_counted(reload(client, ended))
    metrics: Metrics = original.call("get_run_metrics", run_id).json
    result = client.get_result(run_id).result().value
    return original.call("get_run", run_id).json, metrics, result


def _check_tutorial(metrics: Metrics, result: Result) -> None:
    """Check the metrics of the tutorial, which validates before it ends an epoch."""
    reached = next(entry for entry in metrics[_PREC] if float(entry["value"]) >= 80)
    [task_result] = metrics["TaskResult @ 0"]
    [train_time] = metrics["TotalCumulativeTrainTime @ 0"]
    assert task_result["value"].startswith("80% Top 1 Validation Accuracy reached in ")
    assert metrics["train_loss @ 1"][0]["metadata"] == "{rank: 1, epoch:0}"
    epochs = len(metrics["CumulativeTrainTimeEpoch @ 1"])
    assert [entry["value"] for entry in metrics["epoch @ 1"]] == [str(n) for n in range(epochs)]

    assert result.target is not None
    assert (result.target.metric, result.target.value) == ("val_global_Prec@1", 80)
    assert (result.last_value, result.epochs) == (float(reached["value"]), epochs)
    assert result.time_to_target is not None
    assert result.time_to_target.training_seconds == float(train_time["value"])
    assert result.time_to_target.epochs == epochs
    assert result.phases.keys() == {"forward", "backward", "other"}
    [backward] = metrics["global_cum_backward @ 0"]
    per_epoch = [float(entry["value"]) for entry in metrics["backward @ 0"]]
    assert sum(per_epoch) == pytest.approx(float(backward["value"]))


def _check_task(metrics: Metrics, result: Result, workers: Path) -> None:
    """Check that the files of a task are in the worker's folder and its history was reported."""
    for rank in (0, 1):
        [folder] = workers.glob(f"local-mlbench-worker-{rank}/checkpoint/allreduce")
        rank_folder = folder.parents[1]
        assert (rank_folder / "output" / "allreduce").is_dir()
        assert (rank_folder / "mlbench.log").stat().st_size
        history = json.loads((folder / "history.json").read_text())
        rank_metrics = {
            name: entries for name, entries in metrics.items() if name.endswith(f" @ {rank}")
        }
        values = {name for name in rank_metrics if name.startswith(("train_", "val_"))}
        assert len(values) >= (8 if rank == 0 else 4)
        for name in values:
            points = [(value, at) for _, _, key, value, at in history if f"{key} @ {rank}" == name]
            for entry in rank_metrics[name]:
                at = datetime.fromisoformat(entry["date"]).timestamp()
                value = float(entry["value"])
                assert any(
                    value == recorded and abs(at - then) < _SAME_MOMENT_SECONDS
                    for recorded, then in points
                ), (name, entry)
        # Each epoch has 30 batches, and every 25th is reported.
        assert len(rank_metrics[f"train_loss @ {rank}"]) == 4
        assert {entry["metadata"] for entry in rank_metrics[f"fwd_pass @ {rank}"]} == {
            f"{{rank: {rank}, epoch:{epoch}}}" for epoch in (0, 1)
        }
    assert (result.target, result.epochs) == (None, 2)
    phases = {"data", "forward", "backward", "communication", "optimizer", "metrics"}
    assert result.phases.keys() == {*phases, "other"}
    assert result.communication_share
    ranks = [
        sum(float(entry["value"]) for entry in metrics[f"CumulativeTrainTimeEpoch @ {rank}"])
        for rank in (0, 1)
    ]
    assert result.training_seconds == pytest.approx(sum(ranks) / 2)


def _check_archive(original: Original, run: dict[str, Any], metrics: Metrics) -> None:
    answer = original.call("download_run_metrics", run["id"])
    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert files.pop("official_result.txt") == metrics.pop("TaskResult @ 0")[0]["value"]
    for name, entries in metrics.items():
        written = json.loads(files.pop(f"result_{name}.json"))
        assert [(entry["date"], entry["value"]) for entry in written] == [
            (entry["date"], entry["value"]) for entry in entries
        ]
        assert all(entry["cumulative"] is False for entry in written)
    # The remaining files hold the metrics of the pods during the run.
    pods = {rank["pod"] for rank in run["ranks"]}
    assert {name.partition("_")[0] for name in files} == pods
    for pod in pods:
        entries = json.loads(files[f"{pod}_container_cpu_usage_seconds_total.json"])
        assert entries
        dates = [entry["date"] for entry in entries]
        assert run["created_at"] <= min(dates)
        assert max(dates) <= run["finished_at"]
