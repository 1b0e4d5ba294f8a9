"""What the agent sees and says inside a pod of a real cluster."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import wait_for
from tests.support.images import Images

IMAGE = Images.from_environ()["worker"]
NAMESPACE = f"mlbench-agent-test-{os.getpid()}"
SECONDS = 90.0

# Runs a command that wants more memory than it gets, and prints what the agent makes of it.
SCRIPT = """
import json, os, pathlib, sys
from dataclasses import asdict
from mlbench.assignment import Assignment
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.machine import read_machine

hoard = "kept = []\\nwhile True: kept.append(bytearray(10_000_000))"
attempt = Attempt.create(pathlib.Path("/var/lib/mlbench/attempts"), Assignment(
    run_id=1, attempt=1, rank=0, world_size=1, master_addr="127.0.0.1", master_port=1,
    command=(sys.executable, "-c", hoard), cpus=(), keeps_checkpoints=False))
attempt.start(dict(os.environ), on_exit=lambda: None)
attempt.ended.wait()
print(json.dumps({
    **asdict(read_machine()),
    "code": attempt.exit.code,
    "stderr": attempt.file("stderr").read_text(),
}))
"""

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "worker", "namespace": NAMESPACE},
    "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
        "containers": [
            {
                "name": "worker",
                "image": IMAGE,
                "command": ["python3", "-c", SCRIPT],
                "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "200Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "state", "mountPath": "/var/lib/mlbench"},
                ],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "state", "emptyDir": {}}],
    },
}

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def kubectl(*arguments: str, **options: Any) -> str:
    """Return what kubectl prints."""
    printed: str = subprocess.run(
        ["kubectl", *arguments], check=True, text=True, stdout=subprocess.PIPE, **options
    ).stdout
    return printed


@pytest.fixture
def told() -> Iterator[dict[str, Any]]:
    """What the pod printed, in the end."""
    try:
        kubectl("create", "namespace", NAMESPACE)
        account = ("-n", NAMESPACE, "get", "serviceaccount", "--output=name")
        wait_for(lambda: "default" in kubectl(*account), SECONDS, "the namespace has its account")
        kubectl("apply", "-f", "-", input=json.dumps(POD))
        phase = ("-n", NAMESPACE, "get", "pod", "worker", "-o", "jsonpath={.status.phase}")
        ends = {"Succeeded", "Failed"}
        wait_for(lambda: kubectl(*phase) in ends, SECONDS, "the pod has ended")
        yield json.loads(kubectl("-n", NAMESPACE, "logs", "worker"))
    finally:
        kubectl("delete", "--wait=false", "namespace", NAMESPACE)


def test_a_command_that_is_out_of_memory_is_told_so(told: dict[str, Any]) -> None:
    assert told["hostname"] == "worker"
    assert told["memory_limit_bytes"] == 200 << 20
    assert told["code"] == -9
    assert told["stderr"] == (
        "out of memory: the kernel killed a process at the worker's limit, 200 MiB\n"
    )
