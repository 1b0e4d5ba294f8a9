"""Starting and stopping a stack: at most one for each home folder, in front or detached.

``python -m mlbench.local.launch`` is the supervisor's process of a detached stack.
"""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.errors import MLBenchError, NotConnectedError, StackError
from mlbench.local.daemon import configure_logging, on_termination
from mlbench.local.home import Home, StackConnection
from mlbench.local.stack_services import THIS_MACHINE, Listen, StackServices, check_installed
from mlbench.local.supervisor import Supervisor

_START_SECONDS = 90.0
_STOP_SECONDS = 60.0
_PRIVATE = 0o077


def run_in_front(
    home: Home,
    workers: int,
    listen: Listen = THIS_MACHINE,
    on_ready: Callable[[StackConnection], None] = lambda _: None,
) -> None:
    """Run a stack until SIGTERM or Ctrl-C; StackError if it cannot be started, or runs already."""
    check_installed()
    # Files of the stack are readable only by this user.
    os.umask(_PRIVATE)
    try:
        with _lock(home):
            supervisor = Supervisor(home, StackServices(home, workers, listen), workers, on_ready)
            on_termination(supervisor.quit)
            supervisor.run()
    except OSError as error:
        raise StackError(f"the stack cannot use {home.root}: {error}") from error


def start_detached(home: Home, workers: int, listen: Listen = THIS_MACHINE) -> StackConnection:
    """Start a stack that outlives this process, and wait until it is ready.

    If it cannot be started, a StackError ends with its last output.
    """
    check_installed()
    try:
        home.make()
        home.logs.mkdir(exist_ok=True)
        if running_supervisor(home) is None:
            # Left by a stack that was killed. It must not be taken for the new one's.
            home.connection_file.unlink(missing_ok=True)
    except OSError as error:
        raise StackError(f"the stack cannot use {home.root}: {error}") from error
    log_file = home.logs / "supervisor.log"
    begin = log_file.stat().st_size if log_file.exists() else 0
    options = json.dumps({"workers": workers, "listen": asdict(listen)})
    command = [sys.executable, "-P", "-m", "mlbench.local.launch", options]
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, names.ENV_HOME: str(home.root)},
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    deadline = time.monotonic() + _START_SECONDS
    try:
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                raise StackError(f"the stack did not start:\n{_tail(log_file, begin)}")
            try:
                return home.read_connection()
            except NotConnectedError:
                time.sleep(0.05)
    except KeyboardInterrupt:
        # It runs in another session, which Ctrl-C does not reach.
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    os.kill(pid, signal.SIGTERM)
    raise StackError(f"the stack was not ready in time:\n{_tail(log_file, begin)}")


def wait_until_ready(home: Home) -> StackConnection:
    """Wait for the stack that is running or starting; raise StackError if it does not get ready."""
    deadline = time.monotonic() + _START_SECONDS
    while running_supervisor(home) is not None and time.monotonic() < deadline:
        try:
            return home.read_connection()
        except NotConnectedError:
            time.sleep(0.05)
    raise StackError(f"the stack did not become ready. See the logs in {home.logs}.")


def stop(home: Home) -> bool:
    """Stop the stack and wait for its end, or raise StackError; return whether there was one."""
    pid = running_supervisor(home)
    if pid is None:
        return False
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while running_supervisor(home) is not None:
        if time.monotonic() > deadline:
            raise StackError(f"the stack (process {pid}) does not stop")
        time.sleep(0.05)
    return True


def running_supervisor(home: Home) -> int | None:
    """Return the process id of the home folder's supervisor, or None."""
    # The home folder may not exist, or belong to another user.
    with suppress(OSError), home.supervisor_lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read().strip()
            return int(text) if text.isdecimal() else None
    return None


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    """Lock the home folder; the kernel unlocks it when the process ends, however it does."""
    home.make()
    with home.supervisor_lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"a stack is already running with {home.root}") from None
        # Left by a stack that was killed. It must not be taken for this one's.
        home.connection_file.unlink(missing_ok=True)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _tail(path: Path, begin: int) -> str:
    """Return the end of a log, without what started and ended as it should."""
    lines = path.read_bytes()[begin:].decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if " INFO " not in line)[-2000:]


def main() -> None:
    """Run a stack with $MLBENCH_HOME until SIGTERM; the argument is JSON."""
    options = json.loads(sys.argv[1])
    configure_logging()
    try:
        run_in_front(Home.from_environ(), options["workers"], Listen(**options["listen"]))
    except MLBenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
