"""What a rank runs on and with, as its agent states it before it starts the process."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread

from mlbench.assignment import Assignment
from worker.agent.link import Offset
from worker.agent.machine import Gpus, read_gpus, read_machine
from worker.agent.software import Pythons, find_source, git_state, python_of

# A driver that takes longer to wake up is not waited for.
_PATIENCE_SECONDS = 5.0
# The master takes no longer text, and no more for all facts; packages have what the rest leaves.
_LONGEST_TEXT = 1000
_MOST_BYTES = 60 << 10


class Facts:
    """Gathers what takes a while in advance, in a thread: a run's start shall not wait for it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begin; ``environ`` is what training processes are given."""
        self._environ = environ
        self._pythons = Pythons(environ)
        self._own_version = _own_version()
        self._gpus = Gpus()
        self._preparing = Thread(target=self._prepare, name="facts", daemon=True)
        self._preparing.start()

    def state(self, assignment: Assignment, offset: Offset | None) -> dict[str, object]:
        """Return the facts for an assignment, as JSON holds them; None for what is not known."""
        self._preparing.join(_PATIENCE_SECONDS)
        command, folder = assignment.command, Path(assignment.working_dir or ".")
        python = self._pythons.ask(python_of(command, folder, self._environ))
        git = git_state(find_source(command, folder), self._environ)
        return bounded(
            {
                **asdict(read_machine()),
                "gpus": list(self._gpus.names),
                "gpu_driver": self._gpus.driver,
                "python": python.version if python else None,
                "mlbench": self._own_version,
                "packages": dict(python.packages) if python else {},
                "git": asdict(git) if git else None,
                "clock_offset_seconds": offset.seconds if offset else None,
                "clock_uncertainty_seconds": offset.uncertainty_seconds if offset else None,
            }
        )

    def _prepare(self) -> None:
        self._pythons.ask(sys.executable)
        self._gpus = read_gpus()


def bounded(facts: Mapping[str, object]) -> dict[str, object]:
    """Return facts whose texts are not too long, and with so many packages that all have room."""
    cut = {name: _cut(value) for name, value in facts.items()}
    packages = cut["packages"]
    assert isinstance(packages, dict)
    left = _MOST_BYTES - _length({**cut, "packages": {}})
    kept = {}
    for name, its_version in packages.items():
        left -= _length({name: its_version})
        if left < 0:
            break
        kept[name] = its_version
    return {**cut, "packages": kept}


def _cut(value: object) -> object:
    match value:
        case str():
            return value[:_LONGEST_TEXT]
        case list():
            return [_cut(one) for one in value]
        case dict():
            return {_cut(name): _cut(one) for name, one in value.items()}
        case _:
            return value


def _length(facts: object) -> int:
    return len(json.dumps(facts, ensure_ascii=False).encode(errors="replace"))


def _own_version() -> str | None:
    try:
        return version("mlbench")
    except PackageNotFoundError:  # packed into one file, it is not installed
        return None
