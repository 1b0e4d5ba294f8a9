"""schemathesis holds the document against the application, with odd values among others."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from mlbench.contract.pod_token import PodIdentity, derive
from tests.conftest import AGENT_SECRET, USER_TOKEN

pytestmark = [pytest.mark.both_databases, pytest.mark.slow, pytest.mark.timeout(600)]

# Of the pod that the document's examples speak of.
_AGENT_TOKEN = derive(PodIdentity("local-mlbench-worker-0", ""), AGENT_SECRET)
# On a busy machine, all is slow.
_BUSY = ["--suppress-health-check=too_slow"]
_CONFIG = Path(__file__).with_name("schemathesis.toml")


def test_the_application_does_what_the_document_says(
    server: httpx.URL, database_url: str, tmp_path: Path
) -> None:
    schemathesis = Path(sys.executable).with_name("schemathesis")
    # What differs between databases is how they take odd values.
    phases = ["--phases=examples"] if database_url.startswith("sqlite") else []
    # What it tries depends on the order in sets, in spite of its seed.
    environ = {"USER_TOKEN": USER_TOKEN, "AGENT_TOKEN": _AGENT_TOKEN, "PYTHONHASHSEED": "0"}
    environ["SCHEMATHESIS_HOOKS"] = str(_CONFIG.with_name("odd_values.py"))
    # The first to ask waits until it is built, which takes long beside other tests.
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
