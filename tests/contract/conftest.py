"""Fixtures: a running master, an HTTP client and the original MLBench client."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlbench import ApiClient
from mlbench.local.home import Home, StackConnection
from tests.support.known import known
from tests.support.stacks import order_command, run_to_end

_CALLS = Path(__file__).with_name("original_calls.py")


@pytest.fixture(scope="session")
def connection(stack: Home) -> StackConnection:
    return stack.read_connection()


@pytest.fixture
def http(connection: StackConnection) -> Iterator[httpx.Client]:
    """An HTTP client that sends the user's token."""
    headers = {"Authorization": f"Bearer {connection.token}"}
    with httpx.Client(base_url=connection.url, headers=headers, timeout=30) as client:
        yield client


@dataclass(frozen=True)
class ClientResponse:
    """Response received by the original client."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True)
class Original:
    """The original MLBench client, running in a separate process."""

    process: subprocess.Popen[str]

    def call(self, method: str, *args: object, **kwargs: object) -> ClientResponse:
        """Call a method of the client and return its response."""
        line = {"method": method, "args": args, "kwargs": kwargs}
        print(json.dumps(line, default=_date), file=known(self.process.stdin), flush=True)
        answer = json.loads(known(self.process.stdout).readline())
        assert "raised" not in answer, answer
        return ClientResponse(
            answer["status"], httpx.Headers(answer["headers"]), base64.b64decode(answer["body"])
        )


@pytest.fixture(scope="session")
def original_python() -> str:
    """Path of a Python interpreter that has the original MLBench client installed."""
    python = os.environ.get("MLBENCH_CORE")
    if not python:
        pytest.skip("$MLBENCH_CORE is not set to what scripts/get-mlbench-core.sh prints")
    return python


@pytest.fixture(scope="session")
def original(original_python: str, connection: StackConnection) -> Iterator[Original]:
    """The original client, connected to the shared stack."""
    url = f"user:{connection.token}@{httpx.URL(connection.url).netloc.decode()}"
    with subprocess.Popen(
        [original_python, _CALLS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Original(process)


@pytest.fixture
def ended_run(client: ApiClient) -> int:
    """ID of a finished run that recorded nothing."""
    return run_to_end(client, order_command(client, "nothing", f"{sys.executable} -c 0")).id


def _date(value: object) -> object:
    assert isinstance(value, datetime)
    return {"datetime": value.isoformat()}
