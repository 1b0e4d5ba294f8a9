"""Finding the real processes of a stack, to kill them."""

import psutil

from mlbench import names
from mlbench.home import Home
from mlbench.stack import launch


def service(home: Home, word: str) -> psutil.Process:
    """Return the supervisor's child whose command line has a word in it."""
    [found] = [p for p in _children(home) if any(word in part for part in _command(p))]
    return found


def training(home: Home, rank: int) -> list[psutil.Process]:
    """Return the processes of a rank: those that the agent of this home folder started for it."""
    return [
        process
        for process in psutil.process_iter()
        if _environ(process).get(names.ENV_HOME) == str(home.root)
        and _environ(process).get(names.ENV_RANK) == str(rank)
    ]


def _children(home: Home) -> list[psutil.Process]:
    supervisor = launch.running_supervisor(home)
    assert supervisor is not None
    return psutil.Process(supervisor).children()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # a zombie, which the supervisor has yet to see
        return []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
