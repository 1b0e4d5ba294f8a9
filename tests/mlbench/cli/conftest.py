"""The command line: called in this process, as a separate process, or on a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlbench.cli import app
from mlbench.contract import names
from mlbench.local.home import Home
from tests.support.processes import run_text

_PROGRAM = Path(sys.executable).with_name("mlbench")


@dataclass(frozen=True)
class Done:
    """Result of a finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """JSON output of a successful command."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def output(self) -> str:
        """Output of a successful command that printed nothing on stderr."""
        assert (self.code, self.err) == (0, "")
        return self.out

    @property
    def refusal(self) -> str:
        """Error message of a refused call that printed nothing else."""
        assert (self.code, self.out) == (2, ""), self.err
        return self.err


@dataclass(frozen=True)
class Mlbench:
    """The ``mlbench`` command with a fixed home folder."""

    home: Home
    prometheus: Path
    program: tuple[str, ...] = (str(_PROGRAM),)
    folder: Path | None = None
    """Working directory of the command. None: the working directory of this process."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of the command."""

    def __call__(self, *arguments: str) -> Done:
        """Run a command in this process, which is faster than starting another one."""
        signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        environ = {**dict.fromkeys(os.environ), **self._environ()}  # None removes a variable
        with pytest.MonkeyPatch.context() as patch:
            if self.folder is not None:
                patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["mlbench", *arguments])
            done = CliRunner().invoke(app, arguments, env=environ)
        for number, handler in signals.items():
            signal.signal(number, handler)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def process(self, *arguments: str) -> Done:
        """Run a command in a separate process."""
        command, ours = [*self.program, *arguments], self._environ()
        done = run_text(command, cwd=self.folder, env=ours, stdin=subprocess.DEVNULL)
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def on_terminal(self, *arguments: str, columns: int = 80) -> Iterator["Terminal"]:
        """Start a command on a terminal. It is terminated when the block ends."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environ = {**self._environ(), "TERM": "xterm-256color"}
        streams: Any = {"stdin": its, "stdout": its, "stderr": its, "start_new_session": True}
        command = [*self.program, *arguments]
        process = subprocess.Popen(command, cwd=self.folder, env=environ, **streams)
        os.close(its)
        try:
            yield Terminal(process, ours)
        finally:
            process.terminate()
            process.wait(30)
            os.close(ours)

    def _environ(self) -> dict[str, str]:
        dropped = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
        dropped |= {names.ENV_URL, names.ENV_TOKEN, names.ENV_PROMETHEUS_URL}
        kept = {key: value for key, value in os.environ.items() if key not in dropped}
        own = {names.ENV_HOME: str(self.home.root), "PROMETHEUS": str(self.prometheus)}
        return {**kept, **own, **self.more}


class Terminal:
    """A command on a terminal, and its output."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self.raw = ""
        self._descriptor = descriptor

    @property
    def text(self) -> str:
        """All output so far, without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw)

    def read_until(self, pattern: str) -> None:
        """Read output until it matches the pattern."""
        while not re.search(pattern, self.text):
            assert self._read(), f"command ended without printing {pattern!r}: {self.text}"

    def type(self, *lines: str) -> None:
        """Type lines ahead, for the command to read when it prompts for them."""
        os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the process group, like a terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self) -> int:
        """Read all remaining output; return the exit code."""
        while self._read():
            pass
        return self.process.wait(30)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], 60)
        assert ready, f"no output for 60 s: {self.text}"
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # EIO: the other end is closed
            return False
        self.raw += data.decode()
        return bool(data)


@pytest.fixture(scope="session")
def mlbench(stack: Home, prometheus_binary: Path) -> Mlbench:
    """The command line of the shared stack."""
    return Mlbench(stack, prometheus_binary)


@pytest.fixture
def here(mlbench: Mlbench, tmp_path: Path) -> Mlbench:
    """The command line of the shared stack, called in an empty folder."""
    return replace(mlbench, folder=tmp_path)


@pytest.fixture
def alone(tmp_path: Path, prometheus_binary: Path) -> Mlbench:
    """The command line with a home folder that has no stack."""
    return Mlbench(Home(tmp_path / "home"), prometheus_binary)
