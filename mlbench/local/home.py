"""Paths of the local stack's state, under $MLBENCH_HOME."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.atomic_files import write_private
from mlbench.contract.errors import NotConnectedError


@dataclass(frozen=True)
class StackConnection:
    """Addresses of a master, its Prometheus and its Grafana."""

    url: str
    token: str
    prometheus_url: str | None
    """With user and password, if it asks for them; None if it is not known."""
    grafana_url: str | None = None
    """None if no Grafana was found. It may start after the rest, or not at all."""
    elsewhere: bool = False
    """Whether the environment names this master, so that others may know its token too."""
    existing_prometheus: bool = False
    """Whether the stack uses a Prometheus that it did not start."""
    existing_grafana: bool = False
    """Whether the stack uses a Grafana that it did not start."""


class Home:
    """The folder that holds all state of a local stack."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.connection_file = root / "connection.json"
        """The ``StackConnection`` to the running stack, as JSON, mode 0600."""
        self.database = root / "mlbench.db"
        """SQLite database of the master; the controller's lease is in the same folder."""
        self.logs = root / "logs"
        """One log file for each process of the stack."""
        self.prometheus = root / "prometheus"
        """Prometheus's configuration, scrape targets and data."""
        self.scrape_jobs = self.prometheus / "scrape.yml"
        """The stack's scrape jobs, for the configuration of a Prometheus that it did not start."""
        self.grafana = root / "grafana"
        """Grafana's data and logs."""
        self.grafana_program = root / "grafana-server"
        """The Grafana that ``mlbench grafana install`` has unpacked."""
        self.grafana_lock = root / "grafana-install.lock"
        """Locked while Grafana is being installed."""
        self.workers = root / "workers"
        """One folder for each worker agent: its attempts, their streams and counters."""
        self.datasets = root / "datasets"
        """One folder for each data set, unless $MLBENCH_DATASETS names another place."""
        self.archive = root / "archive"
        """The archives of runs, unless $MLBENCH_ARCHIVE names another place."""
        self.sign_in_page = root / "open.html"
        """A page that leads a browser to the master with the token, mode 0600."""
        self.pool_spec = root / "pool.json"
        """How many workers there should be; the controller's local pool writes it."""
        self.pool_status = root / "pool-status.json"
        """Current workers, written by the supervisor."""
        self.switch = root / "switch"
        """Holds the number of the process that holds the switch of local networks."""
        self.supervisor_lock = root / "supervisor.lock"
        """Holds the supervisor's process id, and is locked while a stack runs."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Home":
        """Return the folder named by $MLBENCH_HOME, ``~/.local/share/mlbench`` by default."""
        default = Path.home() / ".local" / "share" / "mlbench"
        return cls(Path(environ.get(names.ENV_HOME) or default).absolute())

    def pod_token(self, pod: str) -> Path:
        """The token with which a worker's agent signs in to the master, mode 0400."""
        return self.root / "pod-tokens" / pod

    def make(self) -> None:
        """Make the folder readable by this user alone: it holds tokens and the output of runs."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = self.root.stat().st_mode
        # A folder like /tmp stays open to everyone; what is in it is private.
        if mode & 0o077 and not mode & stat.S_ISVTX:
            self.root.chmod(0o700)

    def read_connection(self) -> StackConnection:
        """Return how to reach the running stack; a NotConnectedError says why that is not known."""
        file = self.connection_file
        try:
            connection = StackConnection(**json.loads(file.read_text()))
            urls = (connection.url, connection.prometheus_url or "", connection.grafana_url or "")
            if not all(isinstance(text, str) for text in (*urls, connection.token)):
                raise TypeError("an address or the token is no text")
            return connection
        except FileNotFoundError:
            raise NotConnectedError(
                f"no stack is running here ({file} not found). Start one with `mlbench up`."
            ) from None
        except OSError as error:
            raise NotConnectedError(
                f"{file}: cannot be read ({error.strerror}). ${names.ENV_HOME} must name a folder "
                "of yours."
            ) from None
        except (ValueError, TypeError):
            raise NotConnectedError(
                f"{file}: damaged. Run `mlbench down`, then `mlbench up`, to write a new one."
            ) from None

    def write_connection(self, connection: StackConnection) -> None:
        """Store how to reach the stack, readable by this user alone."""
        write_private(self.connection_file, json.dumps(asdict(connection)) + "\n")
