"""The state of real repositories."""

import os
from pathlib import Path

import pytest

from tests.worker.agent.repository import git
from worker.agent.git import git_state


def dirty(source: Path) -> bool | None:
    state = git_state(source, os.environ)
    assert state is not None
    return state.dirty


def test_committed(script: Path) -> None:
    state = git_state(script, os.environ)
    assert state is not None
    assert state.commit == git(script.parent, "rev-parse", "HEAD")
    assert len(state.commit) == 40
    assert state.root == str(script.parent.parent)
    assert state.dirty is False
    (script.parent / "notes.txt").touch()
    assert dirty(script) is False


def test_a_change_anywhere_in_it(script: Path) -> None:
    beside = script.parent.parent / "beside.py"
    beside.touch()
    git(beside.parent, "add", ".")
    assert dirty(script) is True
    git(beside.parent, "commit", "-q", "-m", "second")
    assert dirty(script) is False
    beside.write_text("print(2)\n")
    assert dirty(script) is True


@pytest.mark.parametrize("name", ["new.py", ":(glob)*.py", "-odd.py"])
def test_a_script_that_is_not_tracked(script: Path, name: str) -> None:
    new = script.with_name(name)
    new.touch()
    assert dirty(new) is True
    assert dirty(script) is False


def test_a_script_that_is_not_tracked_where_git_is_told_not_to_look(script: Path) -> None:
    git(script.parent, "config", "status.showUntrackedFiles", "no")
    new = script.with_name("new.py")
    new.touch()
    assert dirty(new) is True
    assert dirty(script) is False


def test_the_repository_that_a_hook_runs_in_is_not_asked(tmp_path: Path, script: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "another")
    state = git_state(script, os.environ | {"GIT_DIR": str(other / ".git")})
    assert state == git_state(script, os.environ)


def test_what_a_repository_ignores_is_not_its_code(script: Path) -> None:
    (script.parent.parent / ".gitignore").write_text("venv\n")
    installed = script.parent.parent / "venv/bin/train"
    installed.parent.mkdir(parents=True)
    installed.touch()
    assert git_state(installed, os.environ) is None


def test_no_repository_or_no_commit(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.touch()
    assert git_state(source, os.environ) is None
    git(tmp_path, "init", "-q")
    assert git_state(source, os.environ) is None


def test_a_commit_that_an_image_states(tmp_path: Path, script: Path) -> None:
    environ = os.environ | {"MLBENCH_GIT_COMMIT": "abc"}
    for source in (None, tmp_path / "train.py"):
        state = git_state(source, environ)
        assert state is not None
        assert (state.commit, state.dirty, state.root) == ("abc", None, None)
    state = git_state(script, environ)
    assert state is not None
    assert state.commit != "abc"


def test_without_git(script: Path) -> None:
    assert git_state(script, {"PATH": "/nowhere"}) is None
    assert git_state(None, os.environ) is None


def test_the_index_is_left_alone(script: Path) -> None:
    index = script.parent.parent / ".git/index"
    # Newer than the index says, so that git would like to note it.
    os.utime(script)
    before = index.read_bytes()
    assert dirty(script) is False
    assert index.read_bytes() == before
