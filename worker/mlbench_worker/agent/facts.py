"""The facts that an agent states of its machine before it starts a rank's process."""

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
from mlbench.contract.records import StatedMachine
from mlbench.contract.shaping import Shaping
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.link import Offset
from mlbench_worker.agent.machine import read_machine
from mlbench_worker.agent.software import Pythons, find_source, git_state, python_of

# A driver that takes longer to wake up is not waited for.
_PATIENCE_SECONDS = 5.0
# The master accepts 64 KiB for all facts. The packages get the space that the rest leaves.
_MOST_BYTES = 60 << 10


class Facts:
    """Gathers slow facts in advance, in a thread, so that a run's start need not wait for them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start the thread; ``environ`` is the environment of training processes."""
        self._environ = environ
        self._pythons = Pythons(environ)
        self._gpus: tuple[str, ...] = ()
        self._gpu_driver: str | None = None
        self._preparing = Thread(target=self._prepare, name="facts", daemon=True)
        self._preparing.start()

    def state(
        self,
        assignment: Assignment,
        offset: Offset | None,
        shaping: Shaping | None = None,
        *,
        is_forked: bool = False,
    ) -> dict[str, object]:
        """Return the fields of a ``StatedMachine``, within the master's bounds.

        ``shaping`` is that of a network of the rank's own.
        """
        self._preparing.join(_PATIENCE_SECONDS)
        command, folder = assignment.command, Path(assignment.working_dir or ".")
        python = self._pythons.ask(python_of(command, folder, self._environ))
        machine = StatedMachine(
            **{
                **vars(read_machine(shaping=shaping)),
                **({"cpus": len(assignment.cpus)} if assignment.cpus else {}),
                "gpus": self._gpus,
                "gpu_driver": self._gpu_driver,
                "is_forked": is_forked,
                "python": python.version if python else None,
                "mlbench": own_version(),
                "packages": python.packages if python else {},
                "git": git_state(find_source(command, folder), self._environ),
                "clock_offset_seconds": offset.seconds if offset else None,
                "clock_uncertainty_seconds": offset.uncertainty_seconds if offset else None,
            }
        )
        facts = asdict(machine)
        del facts["ranks"]  # the master knows whose machine it is
        return bounded(facts)

    def _prepare(self) -> None:
        self._pythons.ask(sys.executable)
        with closing(Gpus()) as gpus:
            self._gpus, self._gpu_driver = gpus.names, gpus.driver


def bounded(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts with long texts cut, and with as many packages as there is room for."""
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
            return value[:MAX_FACT_LENGTH]
        case list() | tuple():
            return [_cut(one) for one in value]
        case dict():
            return {_cut(name): _cut(one) for name, one in value.items()}
        case _:
            return value


def _length(facts: object) -> int:
    return len(json.dumps(facts, ensure_ascii=False).encode(errors="replace"))
