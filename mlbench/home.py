"""Where the local stack keeps its state: every path under $MLBENCH_HOME."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mlbench import names
from mlbench.errors import NotConnectedError


@dataclass(frozen=True)
class Connection:
    """How to reach a master and what is beside it."""

    url: str
    token: str
    prometheus_url: str | None
    """With user and password, if it asks for them; None if it is not known."""
    grafana_url: str | None = None
    """None if no Grafana was found. It may start after the rest, or not at all."""
    elsewhere: bool = False
    """Whether the environment names this master, so that others may know its token too."""


@dataclass(frozen=True)
class Home:
    """The folder that holds all state of a local stack."""

    root: Path

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Home":
        """Return the folder named by $MLBENCH_HOME, ``~/.local/share/mlbench`` by default."""
        default = Path.home() / ".local" / "share" / "mlbench"
        return cls(Path(environ.get(names.ENV_HOME) or default).absolute())

    @property
    def connection_file(self) -> Path:
        """The ``Connection`` to the running stack, as JSON, mode 0600."""
        return self.root / "connection.json"

    @property
    def database(self) -> Path:
        """The master's SQLite database; the controller's lease lies beside it."""
        return self.root / "mlbench.db"

    @property
    def logs(self) -> Path:
        """One log file for each process of the stack."""
        return self.root / "logs"

    @property
    def prometheus(self) -> Path:
        """Prometheus's configuration, scrape targets and data."""
        return self.root / "prometheus"

    @property
    def grafana(self) -> Path:
        """Grafana's data and logs."""
        return self.root / "grafana"

    @property
    def workers(self) -> Path:
        """One folder for each worker agent: its attempts, their streams and counters."""
        return self.root / "workers"

    def pod_token(self, pod: str) -> Path:
        """The token with which a worker's agent signs in to the master, mode 0400."""
        return self.root / "pod-tokens" / pod

    @property
    def datasets(self) -> Path:
        """One folder for each data set, unless $MLBENCH_DATASETS names another place."""
        return self.root / "datasets"

    @property
    def sign_in_page(self) -> Path:
        """A page that leads a browser to the master with the token, mode 0600."""
        return self.root / "open.html"

    @property
    def pool_spec(self) -> Path:
        """How many workers there should be; the controller's local pool writes it."""
        return self.root / "pool.json"

    @property
    def pool_status(self) -> Path:
        """Which workers there are; the supervisor writes it."""
        return self.root / "pool-status.json"

    @property
    def supervisor_lock(self) -> Path:
        """Holds the supervisor's process id, and is locked while a stack runs."""
        return self.root / "supervisor.lock"

    def make(self) -> None:
        """Make the folder readable by this user alone: it holds tokens and the output of runs.

        Raises:
            OSError: it cannot be made, or belongs to another user.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.root.stat().st_mode
        # A folder like /tmp stays open to everyone; what is in it is private.
        if found & 0o077 and not found & stat.S_ISVTX:
            self.root.chmod(0o700)

    def read_connection(self) -> Connection:
        """Return how to reach the running stack.

        Raises:
            NotConnectedError: no stack was started with this home folder.
        """
        try:
            return Connection(**json.loads(self.connection_file.read_text()))
        except FileNotFoundError:
            raise NotConnectedError(
                f"no stack is running here ({self.connection_file} is missing): "
                "start one with `mlbench up`"
            ) from None

    def write_connection(self, connection: Connection) -> None:
        """Store how to reach the stack, readable by this user alone."""
        write_private(self.connection_file, json.dumps(asdict(connection)) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a reader sees the old text or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        draft.replace(path)
    except OSError:
        # On a full disk, what was written of it takes room.
        draft.unlink(missing_ok=True)
        raise


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by this user alone (mode 0600)."""
    write_atomically(path, text, mode=0o600)
