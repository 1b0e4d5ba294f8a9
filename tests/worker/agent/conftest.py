"""What tests of the agent share: code in a repository."""

from pathlib import Path

import pytest

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
