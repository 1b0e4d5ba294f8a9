"""Progress reports of a TrainJob, sent to an HTTPS server that stands in for Kubeflow."""

import json
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench_sources import trainjob
from mlbench_sources.trainjob import TrainJob, TrainJobProgress
from mlbench_worker.agent.sources import SourceContext
from tests.conftest import wait_for
from tests.support.assignments import ASSIGNMENT
from tests.support.certificates import make_certificates
from tests.support.scripted import Reply, answering

_NOW = datetime(2026, 11, 26, 23, 0, 5, tzinfo=UTC)


def test_progress_is_computed_from_settings_and_metrics() -> None:
    progress = TrainJobProgress()
    for line in (
        {"settings": {"epochs": 4, "learning_rate": 0.1}},
        {"time": 1, "step": 10, "metrics": {"epoch": 1, "train_loss": 0.5, "note": "a text"}},
        {"time": 2, "name": "val_loss", "value": 0.25},
        {"time": 3, "metrics": {"train_loss": 0.125}},
    ):
        progress.add(json.dumps(line).encode())
    for malformed in (b"{", b"[1]", b'{"metrics": 3}', b'{"name": []}'):
        progress.add(malformed)
    status = progress.status(_NOW)
    assert status["progressPercentage"] == 25
    assert status["estimatedRemainingSeconds"] >= 0
    assert status["lastUpdatedTime"] == "2026-11-26T23:00:05Z"
    assert {metric["name"]: metric["value"] for metric in status["metrics"]} == {
        "epoch": "1",
        "train_loss": "0.125",
        "val_loss": "0.25",
        "step": "10",
    }


def test_unknown_progress_is_left_out() -> None:
    assert TrainJobProgress().status(_NOW) == {
        "metrics": [],
        "lastUpdatedTime": "2026-11-26T23:00:05Z",
    }


def test_progress_is_reported_during_a_run_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob, "_EVERY_SECONDS", 0.1)
    made, token = make_certificates(tmp_path), tmp_path / "token"
    token.write_text("of-this-pod\n")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.certificate, made.key)
    metrics, exit_codes = tmp_path / "metrics.jsonl", [0]
    metrics.write_text('{"settings":{"max_steps":8}}\n{"step":2,"metrics":{"loss":0.5}}\n{"cut')

    with answering(lambda _: Reply(), tls=tls) as controller:
        environ = {
            "KUBEFLOW_TRAINER_SERVER_URL": f"https://127.0.0.1:{controller.port}/status",
            "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(made.ca),
            "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token),
        }
        context = SourceContext(
            assignment=replace(ASSIGNMENT, rank=0),
            folder=tmp_path,
            stdout=tmp_path / "stdout",
            output=tmp_path / "output",
            environ=environ,
            identity={names.ENV_METRICS_FILE: str(metrics)},
            append=lambda lines: None,
            say=print,
            sockets=None,
            root=None,
            exit_code=exit_codes.pop,
        )
        training = TrainJob(context)
        wait_for(lambda: controller.asked, what="the first report")
        training.close()
        assert b'"progressPercentage": 100' in controller.asked[-1].body
    first = controller.asked[0]
    assert first.headers["Authorization"] == "Bearer of-this-pod"
    status = json.loads(first.body)["trainerStatus"]
    assert status["progressPercentage"] == 25
    assert {"name": "loss", "value": "0.5"} in status["metrics"]
