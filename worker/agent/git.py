"""The state of the git repository that holds a run's code."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench import names
from worker.agent.asking import ask

_PATIENCE_SECONDS = 3.0
# A repository of somebody else, as in many containers, is as good: its code is about to be run
# anyway. Its lock is left alone, and no monitor of its files is started.
_GIT = (
    "git",
    "--no-optional-locks",
    "--literal-pathspecs",
    *("-c", "safe.directory=*"),
    *("-c", "core.fsmonitor=false"),
)
# With these, git asks the repository that they name: one whose hook has started all this.
_OF_ANOTHER = {
    *("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"),
}


@dataclass(frozen=True)
class GitState:
    """What a repository says of the code in it."""

    commit: str
    dirty: bool | None
    """Whether a tracked file was changed, or the code itself is not tracked; None if unknown."""
    root: str | None


def git_state(source: Path | None, environ: Mapping[str, str]) -> GitState | None:
    """Return the state of the repository that a file belongs to.

    Where there is none, or no git, $MLBENCH_GIT_COMMIT says the commit, as an image can that has
    the code without its history; else the state is None.
    """
    state = _ask(source, environ) if source is not None else None
    if state is None and (stated := environ.get(names.ENV_GIT_COMMIT)):
        return GitState(stated, dirty=None, root=None)
    return state


def _ask(source: Path, environ: Mapping[str, str]) -> GitState | None:
    own_environ = {name: value for name, value in environ.items() if name not in _OF_ANOTHER}

    def git(*arguments: str) -> str | None:
        answer = ask([*_GIT, *arguments], source.parent, own_environ, _PATIENCE_SECONDS)
        return None if answer is None else answer.decode(errors="replace").strip()

    place = git("rev-parse", "HEAD", "--show-toplevel")
    if place is None:
        return None
    commit, _, root = place.partition("\n")
    # Whatever the user's settings say of what is not tracked.
    own = git("status", "--porcelain", "--ignored", "--untracked-files", "--", source.name)
    if own is not None and own.startswith("!!"):
        return None  # it only lies there, such as an installed program
    changes = git("status", "--porcelain", "--untracked-files=no")
    return GitState(commit, None if own is None or changes is None else bool(own + changes), root)
