"""The observation of a rank: values in other formats than MLBench's, and interferences."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench_worker.agent.attempt_files import AttemptFiles
from mlbench_worker.agent.environment import of_any_rank
from mlbench_worker.agent.receivers import mlbench_core, mlflow
from mlbench_worker.agent.receivers.file_receiver import Follower
from mlbench_worker.agent.receivers.http_receiver import HttpReceiver, Sockets, no_proxy_for

if TYPE_CHECKING:
    from mlbench.contract.records import Interference
    from mlbench_worker.agent.cpu_contention import Watch


class Observation:
    """Receives a rank's values and measures its interferences, from before its start to its end."""

    def __init__(
        self,
        attempt: AttemptFiles,
        environ: Mapping[str, str],
        sockets: Sockets | None = None,
        root: int | None = None,
    ) -> None:
        """Start a server for the rank's libraries, and follow its stdout and event files.

        ``sockets`` are in the rank's own network; None if it shares the machine's. The rank's
        processes descend from ``root``, by default from this process.

        Raises:
            OSError, RuntimeError: out of sockets or threads.
        """
        assignment, append = attempt.assignment, attempt.append
        self._attempt = attempt
        self._root = root
        self._watch: Watch | None = None
        tracking = mlflow.Tracking(assignment.run_id, attempt.output)
        routes = [tracking.answer, mlbench_core.Reports(assignment).answer]
        self._loopback = server = HttpReceiver(routes, append, attempt.say, sockets, root)
        try:
            folder = Path(assignment.working_dir or ".")
            stdout = attempt.file("stdout")
            variables = of_any_rank(attempt)
            self._follower = Follower(stdout, folder, append, attempt.say, variables, root)
        except RuntimeError:
            server.close()
            raise
        libraries = mlflow.variables(environ, server) | mlbench_core.variables(environ, server)
        attachment = assignment.attachment
        peers = (assignment.master_addr, attachment.network) if attachment else ()
        self.token = server.token
        """Secret of the rank's processes, contained in addresses among ``variables``."""
        self.variables = no_proxy_for(environ, *peers) | libraries
        """Variables that direct the processes to this server. The user's own values are kept."""

    @property
    def failure(self) -> str:
        """The reason for which values of the processes are lost; "" if none are lost."""
        return self._follower.failure

    @property
    def not_recorded(self) -> dict[str, int]:
        """Counts of unrecorded values and files, by the fields of ``records.NotRecorded``."""
        unread = self._follower.events.not_read + self._follower.events.damaged
        return {**self._loopback.not_recorded, "unread_files": unread}

    @property
    def measured(self) -> "Interference | None":
        """The interference measured so far; None before the first measurement."""
        return self._watch.total if self._watch else None

    def measure(
        self, mark: str, *, name_others: bool, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """Start to measure interferences.

        ``mark`` is a variable, as ``NAME=VALUE``, in the environments of all processes of the run.
        ``name_others``: whether to record the names of programs that use the rank's cores.
        ``is_stopped`` returns whether an injected fault stops the processes now.
        """
        # Slow imports: an external rank must not wait for them.
        from mlbench.local.home import Home  # noqa: PLC0415
        from mlbench_worker.agent.cpu_contention import Watch  # noqa: PLC0415
        from mlbench_worker.agent.kernel import Kernel  # noqa: PLC0415

        cores = set(self._attempt.assignment.cpus) or os.sched_getaffinity(0)
        metrics = self._attempt.streams["metrics"]
        recorded = metrics.size()
        watch = Watch(
            lambda: Kernel(mark, cores, self._root, Home.from_environ().supervisor_lock),
            lambda: metrics.size() > recorded,
            is_stopped,
            name_others=name_others,
        )
        watch.start()
        self._watch = watch

    def close(self) -> "Interference | None":
        """Read the last values of the processes, which have ended; return the interference."""
        self._loopback.close()
        self._follower.close()
        return self._watch.end() if self._watch else None
