"""What tests of the agent share: code in a repository, and a master."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.worker.agent.one_run_master import Master, serving
from tests.worker.agent.repository import git


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script in a folder of a repository, committed."""
    path = tmp_path / "repository/code/train.py"
    path.parent.mkdir(parents=True)
    path.write_text("print(1)\n")
    git(path.parent.parent, "init", "-q")
    git(path.parent, "add", ".")
    git(path.parent, "commit", "-q", "-m", "first")
    return path


@pytest.fixture
def master() -> Iterator[tuple[type[Master], str]]:
    """A master that was asked nothing yet, and its URL."""
    handler = type("OneTest", (Master,), {"reports": [], "streams": {}})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with serving(httpd):
        yield handler, f"http://127.0.0.1:{httpd.server_port}"
