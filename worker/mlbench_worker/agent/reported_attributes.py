"""The facts about its machine that an agent reports before it starts a rank's process."""

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from threading import Thread

from mlbench.contract.assignment import Assignment
from mlbench.contract.distribution import own_version
from mlbench.contract.limits import MAX_FACT_LENGTH
from mlbench.contract.records import ReportedMachine
from mlbench.contract.shaping import Shaping
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.machine import read_machine
from mlbench_worker.agent.master_client import Offset
from mlbench_worker.agent.software import (
    Pythons,
    code_version,
    find_source,
    git_state,
    python_of,
)


class ReportedAttributes:
    """Determines slow facts in advance, in a thread, so that the start of a run is not delayed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start the thread; ``environ`` is the environment of training processes."""
        self._environ = environ
        self._pythons = Pythons(environ)
        self._gpus: tuple[str, ...] = ()
        self._gpu_driver: str | None = None

        def prepare() -> None:
            self._pythons.ask(sys.executable)
            with closing(Gpus()) as gpus:
                self._gpus, self._gpu_driver = gpus.names, gpus.driver

        self._preparing = Thread(target=prepare, name="facts", daemon=True)
        self._preparing.start()

    def state(
        self,
        assignment: Assignment,
        offset: Offset | None,
        shaping: Shaping | None = None,
        *,
        is_forked: bool = False,
    ) -> dict[str, object]:
        """Return the fields of a ``ReportedMachine``, within the master's limits.

        ``shaping`` is the shaping of the rank's own network; None without one.
        """
        self._preparing.join(5.0)  # a GPU driver may take longer to wake up
        command, folder = assignment.command, Path(assignment.working_dir or ".")
        python = self._pythons.ask(python_of(command, folder, self._environ))
        source = find_source(command, folder)
        machine = ReportedMachine(
            **{
                **vars(read_machine(shaping=shaping)),
                **({"cpus": len(assignment.cpus)} if assignment.cpus else {}),
                "gpus": self._gpus,
                "gpu_driver": self._gpu_driver,
                "is_forked": is_forked,
                "python": python.version if python else None,
                "mlbench": own_version(),
                "packages": python.packages if python else {},
                "git": git_state(source, self._environ),
                "code": code_version(source, folder, self._environ),
                "clock_offset_seconds": offset.seconds if offset else None,
                "clock_uncertainty_seconds": offset.uncertainty_seconds if offset else None,
            }
        )
        facts = asdict(machine)
        del facts["ranks"]  # the master knows whose machine it is
        return bounded(facts)


def bounded(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts within the master's limits: cut long texts, drop the last packages."""
    cut = {name: _cut(value) for name, value in facts.items()}
    packages = cut["packages"]
    assert isinstance(packages, dict)
    space = (60 << 10) - _length({**cut, "packages": {}})  # bytes
    fitting = {}
    for name, version in packages.items():
        space -= _length({name: version})
        if space < 0:
            break
        fitting[name] = version
    return {**cut, "packages": fitting}


def _cut(value: object) -> object:
    match value:
        case str():
            return value[:MAX_FACT_LENGTH]
        case list() | tuple():
            return [_cut(item) for item in value]
        case dict():
            return {_cut(name): _cut(item) for name, item in value.items()}
        case _:
            return value


def _length(facts: object) -> int:
    return len(json.dumps(facts, ensure_ascii=False).encode(errors="replace"))
