"""Record a rank of a job that others start: by a process beside it, which this one never waits for.

The companion (``worker/mlbench_worker/agent/companion.py``) gives the rank files to write to, and
ships them. ``mlbench.record()`` is for Python without a launcher; ``mlbench record`` for commands.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from mlbench import names
from mlbench.address import parse_address
from mlbench.errors import MLBenchError
from mlbench.home import Home
from mlbench.job import Job, find_job

# A companion that takes longer to begin is not waited for.
_BEGIN_SECONDS = 20.0
_LONGEST_NAME = 100
# It imports from where this process does, be that one file.
_START = """\
import gc, sys
gc.set_threshold(100_000)
sys.path[:] = {path!r}
from mlbench_worker.agent.companion import main
main()
"""


class Companion:
    """The process that records a rank, started and told how the rank ends.

    Raises:
        MLBenchError: it cannot begin, or no master is named.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        command: Sequence[str],
        root: int,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Start it; the rank's processes descend from ``root``."""
        url, token = find_master(environ)
        wanted = {
            "job": asdict(job),
            "name": _as_name(name),
            "command": [*command],
            "working_dir": str(Path.cwd()),
            "root": root,
            "kept_in": str(_kept_in(environ)),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(path=_path())],
                # By the job's key, the other ranks know that it is no stranger on their cores.
                env={
                    **environ,
                    names.ENV_URL: url,
                    names.ENV_TOKEN: token,
                    names.ENV_JOB: job.key,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._tell(wanted)
            answer = self._hear()
        except OSError as error:
            raise MLBenchError(f"its companion cannot be started: {error}") from None
        if "error" in answer:
            raise MLBenchError(answer["error"])
        self.url = url
        self.variables: Mapping[str, str] = answer["variables"]
        """What leads the rank to its files."""
        self.logs = [Path(path) for path in answer["logs"]]
        """The files for its standard output and error."""

    def begin(self, pid: int) -> None:
        """Tell it which command is the rank, so that it asks that to end when the master does."""
        self._tell({"pid": pid})

    def end(self, code: int, failure: str = "", at: float | None = None) -> None:
        """Tell it that the rank has ended, and wait until all is shipped or cannot be.

        ``at`` is when, in Unix seconds; by default now.
        """
        ended_at = time.time() if at is None else at
        self._tell({"exit": code, "at": ended_at, "failure": failure})
        if self._process.wait() < 0:
            words = f"mlbench: not recorded to its end, as its companion was killed: {self.folder}"
            print(words, "has what came before", file=sys.stderr, flush=True)

    @property
    def folder(self) -> Path:
        """The folder of what is recorded."""
        return self.logs[0].parent

    def leave(self) -> None:
        """Have a fork no longer tell that the rank goes on."""
        assert self._process.stdin is not None
        os.close(self._process.stdin.fileno())

    def _tell(self, content: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        # It may have ended: the rank goes on without it.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(content).encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _BEGIN_SECONDS)
        try:
            return json.loads(self._process.stdout.readline() if ready else b"")
        except ValueError:
            self._process.kill()
            self._process.wait()
            raise MLBenchError("its companion did not begin") from None


def _as_name(text: str) -> str:
    """Return a name that a run may have."""
    letters = (letter if letter.isprintable() else " " for letter in text)
    return " ".join("".join(letters).split())[:_LONGEST_NAME].strip() or "command"


def _path() -> list[str]:
    """Return where to import from: last from a script's folder, which may have any names."""
    path = [*sys.path]
    if not sys.flags.safe_path and path and Path(path[0]).absolute() != Path(__file__).parents[1]:
        path.append(path.pop(0))
    return path


def find_master(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL of the master, and a token: of the environment, or of the local stack.

    MLBenchError if one of the two is missing or the URL is none, or no stack runs.
    """
    url, token = environ.get(names.ENV_URL), environ.get(names.ENV_TOKEN)
    if not url and not token:
        connection = Home.from_environ(environ).read_connection()
        return connection.url, connection.token
    if url:
        try:
            address = parse_address(url)
        except MLBenchError as error:
            raise MLBenchError(f"${names.ENV_URL}: {error}") from None
        url, token = address.url, token or address.token
    if not url or not token:
        lacks = names.ENV_TOKEN if url else names.ENV_URL
        raise MLBenchError(f"${lacks} is not set: the master's URL and a token go together")
    return url, token


def _kept_in(environ: Mapping[str, str]) -> Path:
    """Return the folder of what is recorded here, and not shipped yet."""
    # A user of a container may have no home, or none to write to.
    with suppress(OSError, RuntimeError):
        home = Home.from_environ(environ)
        home.make()
        if os.access(home.root, os.W_OK):
            return home.root / "recorded"
    import tempfile  # noqa: PLC0415 - it takes a while to import

    return Path(tempfile.gettempdir()) / f"mlbench-{os.getuid()}"


def record(
    name: str | None = None, *, key: str | None = None, workers: int | None = None
) -> AbstractContextManager[object]:
    """Record this process as a run, or as a rank of one, until it ends, or a ``with`` block does.

    For a script or a notebook that no launcher starts; in a run of MLBench, and a second time, it
    does nothing. A ``Tracker`` made afterwards records. An exception fails the run, as does
    ``sys.exit(1)``, but not ``raise SystemExit(1)``, of which nothing is known. ``key`` is what the
    ranks of a job share, ``workers`` how many there are, where their launcher does not say.

    Raises:
        MLBenchError: no master is named, or it is not known which rank this is.
    """
    if names.ENV_METRICS_FILE in os.environ:
        return nullcontext()
    job = find_job(os.environ, key=key, workers=workers)
    name = name or Path(sys.argv[0]).name or "python"
    companion = Companion(job, name, sys.orig_argv, os.getpid())
    os.environ.update(companion.variables)
    end = _End(companion)
    end.await_it()
    print(f"mlbench: {name} is recorded: {companion.url}/runs", file=sys.stderr)
    return end


class _End(AbstractContextManager[object]):
    """Tells a companion how this interpreter ends."""

    def __init__(self, companion: Companion) -> None:
        self._companion = companion
        self._failure = ""
        self._code = 0
        self._hook = sys.excepthook
        self._exit = sys.exit
        self._owner = os.getpid()

    def await_it(self) -> None:
        sys.excepthook = self._note
        sys.exit = self._note_exit
        os.register_at_fork(after_in_child=self._companion.leave)
        # Trackers, which are made later, are closed before.
        atexit.register(self._tell)

    def __enter__(self) -> None:
        """A block ends the recording where the process goes on, or is killed, as Ray's are."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._code, self._failure = 1, f"{kind.__name__}: {error}"
        atexit.unregister(self._tell)
        self._tell()
        for variable in self._companion.variables:
            os.environ.pop(variable, None)

    def _note(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._code, self._failure = 1, f"{kind.__name__}: {error}"
        self._hook(kind, error, trace)

    def _note_exit(self, status: str | int | None = None, /) -> NoReturn:
        """Note a code that no hook is told of; in a thread it ends the thread alone."""
        if threading.current_thread() is threading.main_thread():
            self._code = status if isinstance(status, int) else int(status is not None)
        self._exit(status)

    def _tell(self) -> None:
        if os.getpid() == self._owner:  # and not a fork
            self._companion.end(self._code & 0xFF, self._failure)
