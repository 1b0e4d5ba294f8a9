"""A real agent, under a master made for the test whose clock is 100 s behind."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import free_port, wait_for

_BEHIND_SECONDS = 100.0
_TRAIN = """
import os
print(os.getcwd(), os.environ["MLBENCH_SEED"], os.environ["MLBENCH_DEADLINE"])
with open(os.environ["MLBENCH_METRICS_FILE"], "a") as file:
    file.write('{"time": 1, "name": "a", "value": 1}\\n')
"""


class Master(BaseHTTPRequestHandler):
    """Gives an agent one assignment, and takes its streams."""

    protocol_version = "HTTP/1.1"
    assignment: dict[str, Any]
    reports: list[dict[str, Any]]
    streams: dict[str, bytes]

    def do_POST(self) -> None:
        """Answer a poll."""
        report = json.loads(self._body())
        self.reports.append(report)
        shipped = all(
            len(self.streams.get(name, b"")) == size
            for name, size in report.get("sizes", {"": 1}).items()
        )
        do = "start" if len(self.reports) == 1 else "stop" if shipped else "wait"
        self._answer(
            {
                "do": do,
                "next_poll_seconds": 0.05,
                "time": time.time() - _BEHIND_SECONDS,
                "assignment": self.assignment if do == "start" else None,
            }
        )

    def do_PUT(self) -> None:
        """Take a piece of a stream."""
        url = urlsplit(self.path)
        name, [offset] = url.path.rpartition("/")[2], parse_qs(url.query)["offset"]
        held = self.streams.get(name, b"")
        self.streams[name] = held[: int(offset)] + self._body()
        self._answer({"offset": len(self.streams[name])})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def master() -> Iterator[tuple[type[Master], str]]:
    handler = type("OneTest", (Master,), {"reports": [], "streams": {}})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    yield handler, f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_run_from_its_start_to_its_last_byte(
    master: tuple[type[Master], str], tmp_path: Path
) -> None:
    served, url = master
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text(_TRAIN)
    deadline_at = time.time() - _BEHIND_SECONDS + 60
    served.assignment = {
        "run_id": 7,
        "attempt": 1,
        "rank": 0,
        "world_size": 1,
        "master_addr": "127.0.0.1",
        "master_port": free_port(),
        "command": [sys.executable, "train.py"],
        "working_dir": str(own),
        "cpus": [],
        "seed": 42,
        "deadline_at": deadline_at,
        "keeps_checkpoints": False,
    }
    options = {
        "--pod": "w-0",
        "--folder": str(tmp_path / "agent"),
        "--port": str(free_port()),
        "--master": url,
    }
    agent = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "worker.agent",
            *(word for pair in options.items() for word in pair),
        ],
        env=os.environ | {"MLBENCH_AGENT_TOKEN": "secret", "MLBENCH_GIT_COMMIT": "abc"},
    )
    try:
        wait_for(
            lambda: len(served.reports) > 1 and served.reports[-1]["state"] == "idle",
            what="the agent is done with the run",
        )
    finally:
        agent.terminate()
        agent.wait()

    first, second = map(json.loads, served.streams["metrics"].splitlines())
    assert second == {"time": 1, "name": "a", "value": 1}
    machine = first["machine"]
    assert machine["packages"]["pytest"] == pytest.__version__
    assert machine["git"] == {"commit": "abc", "dirty": None, "root": None}
    offset, uncertainty = machine["clock_offset_seconds"], machine["clock_uncertainty_seconds"]
    assert abs(offset - _BEHIND_SECONDS) <= uncertainty < 10
    folder, seed, deadline = served.streams["stdout"].decode().split()
    assert (folder, seed) == (str(own), "42")
    assert float(deadline) == pytest.approx(deadline_at + offset, abs=1e-6)
