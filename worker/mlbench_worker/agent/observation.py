"""The observation of a rank: values in other formats than MLBench's, and interferences."""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contract.extensions import load_all
from mlbench_worker.agent.environment import of_any_rank
from mlbench_worker.agent.sources import Sockets, Source, SourceContext

if TYPE_CHECKING:
    from mlbench.contract.records import Interference
    from mlbench_worker.agent.attempt import Attempt
    from mlbench_worker.agent.cpu_contention import Watch


class Observation:
    """Receives a rank's values and measures its interferences, from before its start to its end."""

    def __init__(
        self,
        attempt: "Attempt",
        environ: Mapping[str, str],
        sockets: Sockets | None = None,
        root: int | None = None,
    ) -> None:
        """Start the sources of the rank, in the order of their names.

        ``sockets`` are in the rank's own network; None if it shares the machine's. The rank's
        processes descend from ``root``, by default from this process.

        Raises:
            OSError, RuntimeError: out of sockets or threads.
        """
        assignment = attempt.assignment
        self._attempt = attempt
        self._root = root
        self._exit_code: int | None = None
        self._watch: Watch | None = None
        self._sources: list[Source] = []
        self.variables: dict[str, str] = {}
        """Variables that direct the processes to the sources. The user's own values are kept."""
        try:
            for start in load_all("mlbench.sources").values():
                context = SourceContext(
                    assignment=assignment,
                    folder=Path(assignment.working_dir or "."),
                    stdout=attempt.file("stdout"),
                    output=attempt.output,
                    environ={**environ, **self.variables},
                    identity=of_any_rank(attempt),
                    append=attempt.append,
                    say=attempt.say,
                    sockets=sockets,
                    root=root,
                    exit_code=lambda: self._exit_code,
                )
                self._sources.append(start(context))
                self.variables |= self._sources[-1].variables
        except (OSError, RuntimeError):
            self.close()
            raise
        self.secrets = [source.secret for source in self._sources if source.secret]
        """Secrets of the rank's processes, contained in ``variables``."""

    @property
    def failure(self) -> str:
        """The reason for which values of the processes are lost; "" if none are lost."""
        return next((source.failure for source in self._sources if source.failure), "")

    @property
    def not_recorded(self) -> Counter[str]:
        """Counts of unrecorded values and files, by the fields of ``records.NotRecorded``."""
        counts: Counter[str] = Counter()
        for source in self._sources:
            counts.update(source.not_recorded)
        return counts

    @property
    def measured(self) -> "Interference | None":
        """The interference measured so far; None before the first measurement."""
        return self._watch.total if self._watch else None

    def measure(self, mark: str, *, name_others: bool) -> None:
        """Start to measure interferences.

        ``mark`` is a variable, as ``NAME=VALUE``, in the environments of all processes of the run.
        ``name_others``: whether to record the names of programs that use the rank's cores.
        """
        # Slow imports: an external rank must not wait for them.
        from mlbench.local.home import Home  # noqa: PLC0415
        from mlbench_worker.agent.cpu_contention import Watch  # noqa: PLC0415
        from mlbench_worker.agent.kernel import Kernel  # noqa: PLC0415

        cores = set(self._attempt.assignment.cpus) or os.sched_getaffinity(0)
        recorded = self._attempt.recorded_bytes()
        watch = Watch(
            lambda: Kernel(mark, cores, self._root, Home.from_environ().supervisor_lock),
            lambda: self._attempt.recorded_bytes() > recorded,
            lambda: self._attempt.injected_stops > 0,
            name_others=name_others,
        )
        watch.start()
        self._watch = watch

    def close(self, exit_code: int | None = None) -> "Interference | None":
        """Read the last values of the processes, which have ended; return the interference.

        ``exit_code`` is None if the rank did not start.
        """
        self._exit_code = exit_code
        for source in self._sources:
            source.close()
        return self._watch.end() if self._watch else None
