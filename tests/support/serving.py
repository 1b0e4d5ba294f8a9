"""A master without controller and workers, whose database content stays unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import database_url, gunicorn, running
from mlbench.contract import names
from mlbench.local.home import StackConnection
from tests.conftest import AGENT_SECRET, USER_TOKEN


@contextmanager
def serve_master(
    folder: Path, port: int, prometheus_url: str, token: str = USER_TOKEN, database: str = ""
) -> Iterator[StackConnection]:
    """Run the API until the block ends, by default on the folder's database."""
    url = f"http://127.0.0.1:{port}"
    environ = {
        names.ENV_HOME: str(folder / "home"),
        names.ENV_DATABASE_URL: database or database_url(folder),
        names.ENV_PROMETHEUS_URL: prometheus_url,
        names.ENV_TOKEN: token,
        names.ENV_AGENT_SECRET: AGENT_SECRET,
        names.ENV_URL: url,
    }
    with running("master", gunicorn(port), folder, environ, f"{url}/healthz"):
        yield StackConnection(url, token, prometheus_url)
