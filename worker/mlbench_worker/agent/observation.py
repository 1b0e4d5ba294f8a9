"""What is heard and measured of a rank, beside what its processes write to its streams."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contract import names
from mlbench_worker.agent.environment import of_any_rank
from mlbench_worker.agent.sources import mlflow, original
from mlbench_worker.agent.sources.egress import ports_of
from mlbench_worker.agent.sources.files import Follower
from mlbench_worker.agent.sources.loopback import Loopback, Sockets, no_proxy_for

if TYPE_CHECKING:
    from mlbench.contract.records import Disturbance
    from mlbench_worker.agent.attempt import Attempt
    from mlbench_worker.agent.disturbance import Watch


class Observation:
    """Listens to a rank and measures what disturbs it, from before it begins to after its end."""

    def __init__(
        self,
        attempt: "Attempt",
        environ: Mapping[str, str],
        sockets: Sockets | None = None,
        root: int | None = None,
    ) -> None:
        """Listen, and follow stdout and event files.

        ``sockets`` are of the rank's network, where it has its own. Its processes descend from
        ``root``, by default from this one.

        Raises:
            OSError, RuntimeError: no socket, or no thread, is left.
            ValueError: MLBENCH_LET_OUT is wrong.
        """
        assignment, append = attempt.assignment, attempt.append
        self._attempt = attempt
        self._root = root
        self._watch: Watch | None = None
        let_out = environ.get(names.ENV_LET_OUT, "")
        ports = ports_of(let_out) if sockets and let_out else frozenset()
        tracking = mlflow.Tracking(assignment.run_id, attempt.output)
        routes = [tracking.answer, original.Reports(assignment).answer]
        self._loopback = server = Loopback(routes, append, attempt.say, sockets, ports, root)
        try:
            folder = Path(assignment.working_dir or ".")
            stdout = attempt.file("stdout")
            variables = of_any_rank(attempt)
            self._follower = Follower(stdout, folder, append, attempt.say, variables, root)
        except RuntimeError:
            server.close()
            raise
        libraries = mlflow.variables(environ, server) | original.variables(environ, server)
        attachment, egress = assignment.attachment, server.egress
        peers = (assignment.master_addr, attachment.network) if attachment else ()
        self.token = server.token
        """What only the processes may know; it is a part of addresses among ``variables``."""
        self.variables = egress | no_proxy_for({**environ, **egress}, *peers) | libraries
        """What leads the processes here; what the user has set stays."""

    @property
    def failure(self) -> str:
        """Why values that the processes told are lost; "" if none are."""
        return self._follower.failure

    @property
    def not_recorded(self) -> dict[str, int]:
        """Counts of what is not recorded, by the fields of ``records.NotRecorded``."""
        unread = self._follower.not_read + self._follower.damaged
        return {**self._loopback.not_recorded, "unread_files": unread}

    @property
    def measured(self) -> "Disturbance | None":
        """What was measured until now; None at first."""
        return self._watch.total if self._watch else None

    def measure(self, mark: str, *, name_others: bool) -> None:
        """Begin to measure; with the names of programs that use the rank's cores, if wanted.

        ``mark`` is what the environments of all processes of the run have, as ``NAME=VALUE``.
        """
        # They take a while to import, for which a rank of others need not wait.
        from mlbench.local.home import Home  # noqa: PLC0415
        from mlbench_worker.agent.disturbance import Watch  # noqa: PLC0415
        from mlbench_worker.agent.kernel import Kernel  # noqa: PLC0415

        cores = set(self._attempt.assignment.cpus) or os.sched_getaffinity(0)
        metrics = self._attempt.streams["metrics"]
        recorded = metrics.size()
        watch = Watch(
            lambda: Kernel(mark, cores, self._root, Home.from_environ().supervisor_lock),
            lambda: metrics.size() > recorded,
            lambda: self._attempt.injected_stops > 0,
            name_others=name_others,
        )
        watch.start()
        self._watch = watch

    def close(self) -> "Disturbance | None":
        """Take what the processes, which have ended, have still told; return what was measured."""
        self._loopback.close()
        self._follower.close()
        return self._watch.end() if self._watch else None
