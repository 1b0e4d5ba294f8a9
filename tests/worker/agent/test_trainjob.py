"""A TrainJob is told of its progress by a real HTTPS server with Kubeflow's address."""

import json
import ssl
import threading
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mlbench_worker.agent import trainjob
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.exits import Exit
from mlbench_worker.agent.trainjob import Progress
from tests.conftest import wait_for
from tests.support.kubelet_server import make_certificates
from tests.worker.agent.test_attempt import ASSIGNMENT

_NOW = datetime(2026, 11, 26, 23, 0, 5, tzinfo=UTC)


def test_progress_is_what_the_settings_and_the_metrics_say() -> None:
    progress = Progress()
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


def test_nothing_is_guessed() -> None:
    assert Progress().status(_NOW) == {"metrics": [], "lastUpdatedTime": "2026-11-26T23:00:05Z"}


def test_a_trainjob_is_told_while_a_rank_goes_on_and_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob, "_EVERY_SECONDS", 0.1)
    reports: list[tuple[str | None, Any]] = []

    class Controller(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            reports.append((self.headers["Authorization"], json.loads(body)["trainerStatus"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    made, token = make_certificates(tmp_path), tmp_path / "token"
    token.write_text("of-this-pod\n")
    server = HTTPServer(("127.0.0.1", 0), Controller)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    attempt = Attempt.create(tmp_path / "attempts", replace(ASSIGNMENT, rank=0))
    environ = {
        "KUBEFLOW_TRAINER_SERVER_URL": f"https://127.0.0.1:{server.server_port}/status",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(made.ca),
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token),
    }
    with attempt.file("metrics").open("a") as file:
        file.write('{"settings":{"max_steps":8}}\n{"step":2,"metrics":{"loss":0.5}}\n{"cut')
    trainjob.start(attempt, environ)
    wait_for(lambda: reports)
    attempt._note_exit(Exit(0, 1.0))
    wait_for(lambda: reports[-1][1].get("progressPercentage") == 100)
    server.shutdown()
    server.server_close()
    shown, status = reports[0]
    assert shown == "Bearer of-this-pod"
    assert status["progressPercentage"] == 25
    assert {"name": "loss", "value": "0.5"} in status["metrics"]
