"""All the sources of an attempt, from before its process starts until after it has ended."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlbench import names
from mlbench.assignment import Assignment
from mlbench_worker.agent.sources import mlflow, original
from mlbench_worker.agent.sources.egress import ports_of
from mlbench_worker.agent.sources.files import Follower
from mlbench_worker.agent.sources.loopback import Line, Loopback, Sockets, no_proxy_for


class Sources:
    """What the process of an attempt may tell in another way than by its metrics file."""

    def __init__(
        self,
        assignment: Assignment,
        environ: Mapping[str, str],
        stdout: Path,
        output: Path,
        append: Callable[[Sequence[Line]], None],
        say: Callable[[str], None],
        sockets: Sockets | None = None,
        root: int | None = None,
    ) -> None:
        """Listen, and follow ``stdout`` and event files; ``output`` is the folder for files.

        ``append`` adds lines to the metrics file, or raises an OSError; ``say`` adds words to the
        process's standard error; ``sockets`` are of the process's network, where it has its own.
        The processes descend from ``root``, by default from this one.

        Raises:
            OSError, RuntimeError: no socket, or no thread, is left.
            ValueError: MLBENCH_LET_OUT is wrong.
        """
        let_out = environ.get(names.ENV_LET_OUT, "")
        ports = ports_of(let_out) if sockets and let_out else frozenset()
        tracking = mlflow.Tracking(assignment.run_id, output)
        routes = [tracking.answer, original.Reports(assignment).answer]
        self._loopback = server = Loopback(routes, append, say, sockets, ports, root)
        try:
            self._follower = Follower(stdout, Path(assignment.working_dir or "."), append, root)
        except RuntimeError:
            server.close()
            raise
        libraries = mlflow.variables(environ, server) | original.variables(environ, server)
        attachment, out = assignment.attachment, server.egress
        peers = (assignment.master_addr, attachment.network) if attachment else ()
        self.token = server.token
        """What only the process may know; it is a part of addresses among ``variables``."""
        self.variables = out | no_proxy_for({**environ, **out}, *peers) | libraries
        """What leads the process to the sources; what the user has set stays."""

    @property
    def failure(self) -> str:
        """Why values that the process told are lost; "" if none are."""
        return self._follower.failure

    def close(self) -> None:
        """Take what the process, which has ended, has still told."""
        self._loopback.close()
        self._follower.close()
