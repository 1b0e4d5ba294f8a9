"""Record a rank of an external job by a sidecar process, for which the rank never waits.

The sidecar (``worker/mlbench_worker/agent/sidecar.py``) provides files for the rank to write to,
and ships them. ``record_process.py`` records Python without a launcher, ``record_command.py``
commands.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlbench.contract import names
from mlbench.contract.atomic_files import write_private
from mlbench.contract.errors import MLBenchError, NotConnectedError
from mlbench.contract.humanize import printable
from mlbench.contract.limits import MAX_RUN_NAME_LENGTH
from mlbench.contract.masking import mask_words
from mlbench.local.discovery import find_connection
from mlbench.local.home import Home
from mlbench.tracking.job import Job

# The sidecar imports from the same path as this process, which may be a single file.
_START = """\
import gc, sys
gc.set_threshold(100_000)
sys.path[:] = {path!r}
from mlbench_worker.agent.sidecar import main
main()
"""


class RecorderSidecar:
    """The sidecar that records a rank: starts it, and reports the end of the rank to it.

    Without a master, the recorded data stays in the folder of the sidecar.

    Raises:
        MLBenchError: the sidecar cannot start, or only one of URL and token is set.
    """

    def __init__(
        self, job: Job, name: str, command: Sequence[str], *, hide_command: bool = False
    ) -> None:
        """Start the sidecar; this process and its descendants are the rank.

        Secrets in the command are masked here, before it is written or sent anywhere.
        """
        url = token = nowhere = ""
        name = " ".join(printable(name, " ").split())[:MAX_RUN_NAME_LENGTH].strip()
        try:
            connection = find_connection()
            url, token = connection.url, connection.token
        except NotConnectedError as error:
            if os.environ.get(names.ENV_URL) or os.environ.get(names.ENV_TOKEN):
                raise
            nowhere = str(error)
        self._request = {
            "job": asdict(job),
            "name": name or "command",
            "command": mask_words(command),
            "working_dir": str(Path.cwd()),
            "root": os.getpid(),
            "kept_in": str(_kept_in()),
            "nowhere": nowhere,
        }
        # The key of the job tells its other ranks that this process is not foreign CPU load.
        self._environ = {names.ENV_URL: url, names.ENV_TOKEN: token, names.ENV_JOB: job.key}
        if hide_command:
            self._environ[names.ENV_HIDE_COMMAND] = "1"
        self._pid: int | None = None
        self._replacements = 0
        self._has_ended = False
        self._lock = threading.Lock()
        self._missing = ""
        self._run_page = ""
        try:
            self._start()
            ready, _, _ = select.select([self._answers], [], [], 20.0)
            answer = json.loads(self._answers.readline() if ready else b"")
        except OSError as error:
            raise MLBenchError(f"cannot start the recorder sidecar: {error}") from None
        except ValueError:
            self._process.kill()
            self._process.wait()
            raise MLBenchError("the recorder sidecar did not start") from None
        if "error" in answer:
            raise MLBenchError(answer["error"])
        self.url = url
        self.variables: Mapping[str, str] = answer["variables"]
        """Environment variables of the rank, with the paths of its files."""
        self.logs = [Path(path) for path in answer["logs"]]
        """Files for the standard output and error of the rank."""

    def _start(self) -> None:
        # The folder of a script is last in the import path, because it may shadow modules.
        path = [*sys.path]
        root = Path(__file__).parents[2]
        if not sys.flags.safe_path and path and Path(path[0]).absolute() != root:
            path.append(path.pop(0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=path)],
            env={**os.environ, **self._environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._words, self._answers = self._process.stdin, self._process.stdout
        self._tell(self._request)

    def begin(self, pid: int) -> None:
        """Report the process of the rank, which the sidecar stops if the master asks for it.

        From now on, a killed sidecar is replaced at once.
        """

        def watch() -> None:
            while self._process.wait() and not self._has_ended and self._replace():
                pass

        self._pid = pid
        self._tell({"pid": pid})
        threading.Thread(target=watch, name="sidecar", daemon=True).start()

    def _replace(self) -> bool:
        """Replace a killed sidecar; return whether a sidecar is running."""
        with self._lock:
            code = self._process.poll()
            if not code:
                return code is None
            cause = f"signal {-code}" if code < 0 else f"an error, exit code {code}"
            self._missing = (
                f"the recorder sidecar was killed by {cause}; "
                "values from MLflow, TensorBoard or MLLOG may be missing"
            )
            if self._replacements == 3:  # A memory limit, for example, would kill each of them.
                return False
            self._replacements += 1
            print(f"mlbench: {self._missing}", file=sys.stderr, flush=True)
            self._request |= {"folder": str(self.folder)}
            try:
                self._start()
            except OSError:
                return False
            if self._pid is not None:
                self._tell({"pid": self._pid})
            return True

    def end(
        self, code: int, failure: str = "", *, missing: str = "", at: float | None = None
    ) -> None:
        """Report the end of the rank, and wait until everything is shipped or cannot be.

        ``missing`` describes data that could not be recorded; ``at`` is the time of the end in Unix
        seconds, by default now.
        """
        ended_at = time.time() if at is None else at
        self._has_ended = True
        while self._replace():
            lost = "; ".join(filter(None, [missing, self._missing]))
            self._tell({"exit": code, "at": ended_at, "failure": failure, "missing": lost})
            if not self._process.wait():
                return
        if not self._process.returncode:
            return
        # No sidecar is left to report the exit, so `mlbench ship` reads it from a file.
        failure = failure or (f"exit code {code}" if code else "")
        text = "; ".join(filter(None, [failure, missing, self._missing]))
        file = self.folder / names.EXIT_FILE
        with suppress(OSError):
            if not file.exists():
                write_private(file, json.dumps({"code": code, "at": ended_at, "failure": text}))
        remedy = f"Send the rest of {self.folder} with `mlbench ship {self.folder}`."
        print(f"mlbench: {self._missing}. {remedy}", file=sys.stderr, flush=True)

    @property
    def folder(self) -> Path:
        """Folder of the recorded data."""
        return self.logs[0].parent

    def end_with_exit(self) -> None:
        """Let the exit of this process report its code, and wait for the delivery.

        Raises:
            OSError, AttributeError: the C library is not glibc and lacks ``on_exit``.
        """
        import ctypes  # noqa: PLC0415 - at the end of a process, which has mostly imported it

        self._has_ended = True
        self._replace()
        libc = ctypes.CDLL(None)
        on_exit, await_end = libc.on_exit, libc["__cxa_atexit"]
        libc.fdopen.restype = ctypes.c_void_p
        # Separate descriptors, because Python closes its own files before.
        answers = ctypes.c_void_p(libc.fdopen(os.dup(self._answers.fileno()), b"r"))
        code = ctypes.c_void_p(libc.fdopen(os.dup(self._words.fileno()), b"w"))
        libc.setbuf(code, None)
        self._tell({"exits": True, "missing": self._missing})
        # Called in reverse order: fputc(status, code), then fgetc(answers) until end of file.
        await_end(libc.fgetc, answers, None)
        on_exit(libc.fputc, code)

    def rest(self, code: int | None, failure: str = "") -> None:
        """Report how the rank has ended in case that its idle notebook is killed.

        ``code`` is None while a cell runs.
        """
        self._tell({"rest": None if code is None else {"code": code, "failure": failure}})

    def run_page(self) -> str:
        """Return the address of the run page; empty if the master does not respond within 2 s."""
        deadline = time.monotonic() + 2.0
        while self.url and not self._run_page and time.monotonic() < deadline:
            with suppress(OSError, ValueError):
                run_id = json.loads((self.folder / names.RUN_FILE).read_text())
                self._run_page = f"{self.url}/runs/{int(run_id)}"
                break
            time.sleep(0.05)
        return self._run_page

    def leave(self) -> None:
        """Close the pipe in a fork, so that it does not signal that the rank is alive."""
        os.close(self._words.fileno())

    def _tell(self, content: Mapping[str, Any]) -> None:
        # The sidecar may have exited; the rank continues without it.
        with suppress(BrokenPipeError):
            self._words.write(json.dumps(content).encode() + b"\n")
            self._words.flush()


def _kept_in() -> Path:
    """Return the folder for recorded data that is not shipped yet."""
    # In a container, the user may have no home, or a read-only one.
    with suppress(OSError, RuntimeError):
        home = Home.from_environ()
        home.make()
        folder = home.root / "recorded"
        if os.access(home.root, os.W_OK) and not _is_of_another_user(folder):
            return folder
    import tempfile  # noqa: PLC0415 - it takes a while to import

    folder = Path(tempfile.gettempdir()) / f"mlbench-{os.getuid()}"
    if not _is_of_another_user(folder):
        return folder
    print(f"mlbench: {folder} belongs to another user and is not used", file=sys.stderr)
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))


def _is_of_another_user(path: Path) -> bool:
    return os.path.lexists(path) and path.lstat().st_uid != os.getuid()
