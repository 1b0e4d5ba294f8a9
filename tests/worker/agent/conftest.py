"""What tests of the agent share: code in a repository, and a master."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted import answering
from tests.worker.agent.one_run_master import Master
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
def master() -> Iterator[Master]:
    """A master that was asked nothing yet."""
    master = Master()
    with answering(master.answer) as server:
        master.url = server.url
        yield master
