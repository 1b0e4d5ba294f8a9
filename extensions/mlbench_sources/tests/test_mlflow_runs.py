"""Runs with MLflow's own client, in code without any call of MLBench."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.pages import order_as_printed
from tests.support.stacks import assert_counted, kill_service, order_command, run_to_end

pytestmark = pytest.mark.slow

_FOLDER = Path(__file__).parent
# Precedes a script, so that each rank writes the values that its client sends.
_OBSERVED = f"import sys; sys.path.append({str(_FOLDER)!r}); import observed_mlflow\n"
_BEYOND = """
import mlflow

with mlflow.start_run() as run:
    for rate in (0.1, 0.2):
        with mlflow.start_run(nested=True, run_name="trial"):
            mlflow.log_param("rate", rate)
            mlflow.log_metric("loss", rate)
    mlflow.set_tag("team", "blue")
    mlflow.delete_tag("team")
    client = mlflow.MlflowClient()
    client.create_registered_model("net")
    client.create_model_version("net", "here")
    print(mlflow.get_tracking_uri())
"""
_ARTIFACTS = """
import matplotlib.pyplot as plt
import mlflow
from pathlib import Path

with open("model.bin", "wb") as file:
    file.write(bytes(2_000_000))
Path("folder", "deep").mkdir(parents=True)
Path("folder", "deep", "b.csv").write_text("step,loss\\n1,0.5\\n")
Path("empty").touch()
with mlflow.start_run() as run:
    mlflow.log_text("a note", "notes/løss 1.txt")
    mlflow.log_dict({"lr": 0.1}, "config.json")
    mlflow.log_figure(plt.figure(), "plots/loss.png")
    mlflow.log_table({"a": [1]}, "table.json")
    mlflow.log_table({"a": [2]}, "table.json")
    mlflow.log_artifact("model.bin", "big")
    mlflow.log_artifact("empty")
    mlflow.log_artifacts("folder", "given")
    for path in ("../out.txt", "/etc/out.txt", "a/../../out.txt"):
        try:
            mlflow.log_text("x", path)
        except mlflow.MlflowException:
            mlflow.log_metric("refused", 1)
    with mlflow.start_run(nested=True, run_name="../trial") as trial:
        mlflow.log_text("of the trial", "notes.txt")
    assert mlflow.artifacts.load_dict(f"runs:/{run.info.run_id}/config.json") == {"lr": 0.1}
    listed = mlflow.MlflowClient().list_artifacts(run.info.run_id, "given")
    assert [one.path for one in listed] == ["given/deep"]
"""

Said = tuple[str, float, int, int]
"""A value sent by MLflow's client: name, value, Unix milliseconds, step."""


def said(folder: Path, rank: int = 0) -> list[Said]:
    path = folder / f"said-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    # A client may send a value twice, the second time for a model.
    said_once = dict.fromkeys(lines)
    return [(name, value, at, step) for name, value, at, step in map(json.loads, said_once)]


def recorded(client: ApiClient, run: Run, rank: int) -> set[tuple[str, float, int]]:
    """Return the samples of a rank as name, value and Unix milliseconds; steps are samples, too."""
    series = client.get_run_metrics(run.id).result().value
    return {
        (name, point.number, round(datetime.fromisoformat(point.date).timestamp() * 1000))
        for name, _, of in (name.rpartition(" @ ") for name in series)
        if of == str(rank)
        for point in series[f"{name} @ {rank}"]
    }


def wanted(all_said: list[Said]) -> set[tuple[str, float, int]]:
    values = {(name, value, at) for name, value, at, _ in all_said}
    return values | {("step", step, at) for _, _, at, step in all_said}


def test_the_documented_script_is_recorded_although_services_are_killed(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    def type_it() -> Run:
        how = {"before": _OBSERVED, "venv": integrations, "cli": integrations}
        return order_as_printed(client, stack, "mlflow", tmp_path, detach=False, **how)

    with ThreadPoolExecutor(1) as typing:
        typed = typing.submit(type_it)
        wait_for(lambda: said(tmp_path), what="it logs")
        kill_service(stack, "gunicorn", "mlbench_master.controller")
        assert not typed.done(), "the run ended before the kill"
        run = typed.result(120)
    assert run.state == "FINISHED", run.reason
    assert run.num_workers == 2
    assert_counted(run)
    assert run.settings == {"alpha": 0.001, "batch_size": 96}
    for rank in (0, 1):
        assert len(said(tmp_path, rank)) == 200
        assert recorded(client, run, rank) == wanted(said(tmp_path, rank))


def _run_script(client: ApiClient, python: str, folder: Path, script: str) -> Run:
    """Run a script in a folder until it ends."""
    (folder / "script.py").write_text(script)
    run = order_command(client, "script", f"{python} script.py", working_dir=str(folder))
    run = run_to_end(client, run, 300)  # Importing the libraries takes minutes on a busy machine.
    assert run.state == "FINISHED", run.reason
    return run


def test_libraries_that_log_to_mlflow_are_recorded(
    client: ApiClient, integrations: str, tmp_path: Path
) -> None:
    script = _OBSERVED + (_FOLDER / "mlflow_libraries.py").read_text()
    run = _run_script(client, integrations, tmp_path, script)
    assert_counted(run)
    all_said = said(tmp_path)
    assert recorded(client, run, 0) >= wanted(all_said)
    by_library = {"training_accuracy_score", "train-logloss", "autologged", "logged", "train_loss"}
    assert by_library <= {name for name, *_ in all_said}
    assert run.settings is not None
    assert run.settings.items() >= {"max_iter": 100, "objective": "binary:logistic"}.items()
    assert run.settings.items() >= {"epochs": 2, "max_steps": 4, "model_type": "tiny"}.items()
    # scikit-learn's autologging saves a model and plots.
    kept = {file.name for file in client.get_files(run.id).result().value if not file.left}
    assert kept >= {"models/model/MLmodel", "estimator.html"}


def test_other_calls_of_mlflow_do_not_fail_the_code(
    client: ApiClient, integrations: str, tmp_path: Path
) -> None:
    run = _run_script(client, integrations, tmp_path, _BEYOND)
    assert run.settings == {"trial/rate": 0.1, "trial-2/rate": 0.2}
    values = {(name, value) for name, value, _ in recorded(client, run, 0)}
    assert values >= {("trial/loss", 0.1), ("trial-2/loss", 0.2)}
    stdout = str(client.get_logs(run.id).result().value)
    assert re.search(r"http://mlbench:\*+@127\.0\.0\.1:", stdout)


def test_small_artifacts_become_files_of_the_run(
    client: ApiClient, integrations: str, tmp_path: Path
) -> None:
    run = _run_script(client, integrations, tmp_path, _ARTIFACTS)
    assert [value for name, value, _ in recorded(client, run, 0) if name == "refused"] == [1] * 3
    files = {file.name: file for file in client.get_files(run.id).result().value}
    [nested] = [name for name in files if name.endswith("-1/notes.txt")]
    model = files.pop("big/model.bin")
    assert (model.size, model.left) == (2_000_000, "it has more than 1 MiB")
    assert model.sha256 == sha256(bytes(2_000_000)).hexdigest()
    assert Path(known(model.path)).read_bytes() == bytes(2_000_000)

    def content(name: str) -> bytes:
        target = BytesIO()
        client.download_file(run.id, files[name], target)
        return target.getvalue()

    assert {name: content(name) for name in files if name.endswith((".txt", ".csv", "empty"))} == {
        "notes/løss 1.txt": b"a note",
        "given/deep/b.csv": b"step,loss\n1,0.5\n",
        "empty": b"",
        nested: b"of the trial",
    }
    assert json.loads(content("config.json")) == {"lr": 0.1}
    assert json.loads(content("table.json")) == {"columns": ["a"], "data": [[1], [2]]}
    assert content("plots/loss.png").startswith(b"\x89PNG")
