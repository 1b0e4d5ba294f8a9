"""Real pods: agent processes that start and end children on request."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mlbench.contract import names
from tests.support.certificates import Certificates, make_certificates
from tests.support.kubelet_server import KubeletServer, make_account, serving

# The agent executes each line of Python that it reads, and acknowledges it.
AGENT = """
import sys
scope = {}
for line in sys.stdin:
    exec(line, scope)
    print("done", flush=True)
"""


class Agent:
    """A process that the exporter takes for a pod's root process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def do(self, line: str) -> None:
        """Run a line of Python in the agent, and return when it has run."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", f"the agent failed at: {line}"


StartPod = Callable[..., Agent]


@pytest.fixture
def start_pod(tmp_path: Path) -> Iterator[StartPod]:
    """Return ``start_pod(pod, home=tmp_path, prefix=())``: starts an agent behind ``prefix``."""
    with ExitStack() as stack:

        def start(pod: str, home: Path = tmp_path, prefix: tuple[str, ...] = ()) -> Agent:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-c", AGENT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {names.ENV_POD: pod, names.ENV_HOME: str(home)},
            )
            stack.enter_context(process)  # closes stdin, which ends the agent, and waits
            agent = Agent(process)
            agent.do("import ctypes, os, signal, subprocess, sys")
            return agent

        yield start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return a certificate for 127.0.0.1 and the authority that signed it."""
    try:
        return make_certificates(tmp_path_factory.mktemp("certificates"))
    except FileNotFoundError:
        pytest.skip("openssl is missing")


@pytest.fixture
def server(certificates: Certificates) -> Iterator[KubeletServer]:
    """A stand-in for a kubelet."""
    with serving(KubeletServer(certificates)) as server:
        yield server


@pytest.fixture
def account(server: KubeletServer, certificates: Certificates, tmp_path: Path) -> Path:
    """The folder of a service account with access to the server."""
    return make_account(tmp_path / "account", certificates, server.token)
