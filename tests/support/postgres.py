"""A PostgreSQL server for tests, on a Unix socket, with empty databases."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

# PostgreSQL refuses to run as root.
_ROOTS_STAND_IN = "nobody"
_USER = "mlbench"


@dataclass
class PostgresServer:
    """A PostgreSQL in a separate folder, without protection against power failures."""

    binaries: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        """Return the URL of a database on this server."""
        return f"postgresql:///{name}?host={self.folder}&user={_USER}"

    def create(self) -> None:
        # ICU collation differs from byte order, so the tests notice code that relies on byte order.
        order = ("--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")
        subprocess.run(
            [
                str(self.binaries / "initdb"),
                *("--no-sync", "--auth=trust", f"--username={_USER}", *order, self._data),
            ],
            cwd=self.folder,
            check=True,
            capture_output=True,
            **_as_stand_in(),
        )

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        where = f"unix_socket_directories={self.folder}"
        settings = (where, "listen_addresses=", "fsync=off", "max_connections=50", "jit=off")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.binaries / "postgres"),
                    *("-D", self._data),
                    *(word for setting in settings for word in ("-c", setting)),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_stand_in(),
            )
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
            else:
                return

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process = None

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Create a database without tables, and yield its name."""
        name = f"test_{uuid.uuid4().hex}"
        with self.connect() as admin:
            admin.execute(f"CREATE DATABASE {name}")
        yield name
        with self.connect() as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def clear(self, name: str, tables: Sequence[str]) -> None:
        """Empty the tables in the given order, reset sequences, and close other connections."""
        with self.connect(name) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = %s AND pid != pg_backend_pid()",
                (name,),
            )
            # TRUNCATE would take 300 times as long.
            for table in tables:
                admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            admin.execute("SELECT setval(sequencename::regclass, 1, false) FROM pg_sequences")

    def connect(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """Open a new connection."""
        return psycopg.connect(host=str(self.folder), user=_USER, dbname=name, autocommit=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")


@contextmanager
def serve() -> Iterator[PostgresServer]:
    """Run a PostgreSQL until the block ends; skip the test if none is installed."""
    # Pytest's folders do not work here: other users cannot enter them, and their paths are too long
    # for a socket.
    with tempfile.TemporaryDirectory(prefix="mlbench-postgres-") as folder:
        if stand_in := _as_stand_in():
            shutil.chown(folder, stand_in["user"])
        server = PostgresServer(_find_binaries(), Path(folder))
        try:
            server.create()
        except PermissionError as error:
            pytest.skip(f"PostgreSQL does not run as root, and {_ROOTS_STAND_IN} cannot: {error}")
        server.start()
        try:
            yield server
        finally:
            if server.process is not None:
                server.stop()


def _find_binaries() -> Path:
    """Return the folder of PostgreSQL's binaries: from $POSTGRES, from PATH, or Debian's newest."""
    if named := os.environ.get("POSTGRES"):
        return Path(named)
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    installed = [program.parent for program in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not installed:
        pytest.skip("PostgreSQL is missing: install it, or name its binaries: POSTGRES=/path/bin")
    return max(installed, key=lambda binaries: int(binaries.parent.name))


def _as_stand_in() -> dict[str, Any]:
    return {"user": _ROOTS_STAND_IN, "extra_groups": []} if os.getuid() == 0 else {}
