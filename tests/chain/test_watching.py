"""Who watches a run sees its end, also where parts of the stack were started again meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

from mlbench import ApiClient, names
from mlbench.home import Home
from tests.chain.processes import service
from tests.conftest import wait_for

_MLBENCH = Path(sys.executable).with_name("mlbench")


def test_a_watcher_outlasts_a_killed_api_and_prometheus(own_stack: Home) -> None:
    watcher = subprocess.Popen(
        [_MLBENCH, "run", "steps", "--set", "steps=900", "--set", "rate=150"],
        env={**os.environ, names.ENV_HOME: str(own_stack.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ApiClient.from_home(own_stack) as client:
        wait_for(lambda: _begun(client), what="it has begun")
    service(own_stack, "--config.file").kill()
    service(own_stack, "gunicorn").kill()
    stdout, stderr = watcher.communicate(timeout=60)
    assert watcher.returncode == 0, stderr
    assert "FINISHED" in stdout
    assert "recorded" in stdout


def _begun(client: ApiClient) -> bool:
    runs = client.get_runs().result().value
    return bool(runs and client.get_run_metrics(runs[0].id).result().value.get("train_loss @ 0"))
