"""schemathesis tests the application against the OpenAPI document."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mlbench.contract.pod_token import PodIdentity, derive
from tests.conftest import AGENT_SECRET, USER_TOKEN

pytestmark = [pytest.mark.both_databases, pytest.mark.slow, pytest.mark.timeout(600)]

# Token of the pod in the document's examples.
_AGENT_TOKEN = derive(PodIdentity("local-mlbench-worker-0", ""), AGENT_SECRET)
# The health check would fail on a busy machine.
_BUSY = ["--suppress-health-check=too_slow"]
_CONFIG = Path(__file__).with_name("schemathesis.toml")


def test_the_application_conforms_to_the_document(
    server: httpx.URL, database_url: str, tmp_path: Path
) -> None:
    schemathesis = Path(sys.executable).with_name("schemathesis")
    # SQLite needs only the phase with odd values, because the databases differ only there.
    phases = ["--phases=examples"] if database_url.startswith("sqlite") else []
    # The generated cases depend on the order of sets, despite the seed.
    environ = {"USER_TOKEN": USER_TOKEN, "AGENT_TOKEN": _AGENT_TOKEN, "PYTHONHASHSEED": "0"}
    environ["SCHEMATHESIS_HOOKS"] = str(_CONFIG.with_name("odd_values.py"))
    # Build the document now: while other tests run, that takes longer than the timeout of
    # schemathesis.
    httpx.get(f"{server}/openapi.json", timeout=60).raise_for_status()
    judged = subprocess.run(
        [schemathesis, "--config-file", _CONFIG, "run", *phases, *_BUSY, f"{server}/openapi.json"],
        cwd=tmp_path,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
