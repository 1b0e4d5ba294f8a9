"""The client that openapi-python-client generates, with its default options, calls every route."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from mlbench.contract.pod_token import PodIdentity, derive
from tests.conftest import AGENT_SECRET, USER_TOKEN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_AGENT_TOKEN = derive(PodIdentity("local-mlbench-worker-0", ""), AGENT_SECRET)
_CALL = Path(__file__).with_name("call_operations.py")
# Run 1 is active, so that it has no archive. The example of an archive is not a whole one.
_REFUSED = {"get_archive": 409, "import_archive": 400}


def test_a_generated_client_calls_every_operation(server: httpx.URL, tmp_path: Path) -> None:
    python = os.environ.get("OPENAPI_CLIENT")
    if not python:
        pytest.skip("$OPENAPI_CLIENT is not set to what scripts/get-openapi-client.sh prints")
    document, package = tmp_path / "openapi.json", tmp_path / "mlbench_api"
    document.write_text(httpx.get(f"{server}/openapi.json", timeout=60).text)
    generate = f"generate --path {document} --meta none --output-path {package}"
    subprocess.run([python, "-m", "openapi_python_client", *generate.split()], check=True)
    words = f"{_CALL} {tmp_path} {document} {server} {USER_TOKEN} {_AGENT_TOKEN}"
    responses = json.loads(subprocess.check_output([python, *words.split()]))
    refused = {name: status for name, (status, _) in responses.items() if status >= 300}
    assert refused == _REFUSED
    paths = json.loads(document.read_text())["paths"]
    answers = {o["operationId"]: o["responses"] for path in paths.values() for o in path.values()}
    for name, (status, is_parsed) in responses.items():
        assert name in _REFUSED or is_parsed == ("content" in answers[name][str(status)]), name
