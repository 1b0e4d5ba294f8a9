"""``mlbench service``: a unit of systemd that starts the local stack with the machine."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlbench.cli.command import Command
from mlbench.cli.common import UsageError, out
from mlbench.contract.atomic_files import write_private
from mlbench.contract.errors import StackError
from mlbench.contract.names import ENV_HOME, ENV_PROMETHEUS_URL, ENV_TOKEN, ENV_URL
from mlbench.local import launch
from mlbench.local.home import Home
from mlbench.local.stack_services import LOOPBACK

UNIT = "mlbench.service"

app = typer.Typer(no_args_is_help=True, add_completion=False)

_System = Annotated[
    bool,
    typer.Option("--system", help="A service of the machine, which needs root, not of this user."),
]


@app.command(cls=Command)
def install(
    system: _System = False,
    workers: Annotated[int, typer.Option(min=1, max=16, help="Number of workers.")] = 2,
    host: Annotated[str, typer.Option(help="Address of the API.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the API.")] = 8000,
    user: Annotated[
        str, typer.Option(help="User whose stack a service of the machine starts.")
    ] = "",
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it now.")] = True,
) -> None:
    """Write a unit that starts the stack with the machine, and start it."""
    if user and not system:
        raise UsageError("--user: needs --system. A service of a user runs as this user.")
    if start and shutil.which("systemctl") is None:
        raise StackError("systemctl: program not found. --no-start writes the unit only.")
    if start and launch.running_supervisor(Home.from_environ()):
        raise UsageError("a stack is already running. Stop it with `mlbench down` first.")
    unit = _unit_file(system)
    # The whole path, because systemd does not know $PATH.
    beside = Path(sys.executable).with_name("mlbench")
    program = str(beside) if beside.exists() else shutil.which("mlbench")
    if program is None:
        raise StackError("mlbench: program not found in $PATH. Install MLBench with pip.")
    command = (program, "up", f"--workers={workers}", f"--host={host}", f"--port={port}")
    try:
        # Settings may contain passwords.
        write_private(unit, unit_text(command, user if system else None))
    except OSError as error:
        raise StackError(f"{unit}: cannot be written ({error.strerror})") from None
    out.print(f"{unit} written", soft_wrap=True)
    if start:
        _systemctl(system, "daemon-reload")
        _systemctl(system, "enable", "--now", UNIT)
        out.print("started; it starts with the machine from now on")
        if not system:
            out.print("To start it before you log in: loginctl enable-linger")


@app.command(cls=Command)
def uninstall(system: _System = False) -> None:
    """Stop the service and delete its unit. Runs and settings stay."""
    unit = _unit_file(system)
    if not unit.exists():
        raise UsageError(f"{unit}: not found. No service is installed.")
    _systemctl(system, "disable", "--now", UNIT)
    unit.unlink()
    _systemctl(system, "daemon-reload")
    out.print(f"{unit} deleted", soft_wrap=True)


def unit_text(command: tuple[str, ...], user: str | None) -> str:
    """Return the text of a unit.

    It has the settings of MLBench in the caller's environment, except for the address, the token
    and the Prometheus of another master.

    Args:
        command: program with its arguments.
        user: user of a service of the machine, "" for the caller; None for a service of a user.
    """
    words = " ".join(_quoted(word).replace("$", "$$") for word in command)
    of_another = {ENV_URL, ENV_TOKEN} | ({ENV_PROMETHEUS_URL} if os.environ.get(ENV_URL) else set())
    environ = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("MLBENCH_") and name not in of_another
    }
    if user is None:
        identity, target = "", "default.target"
        environ.setdefault(ENV_HOME, str(Home.from_environ().root))
    else:
        owner = user or pwd.getpwuid(os.getuid()).pw_name
        identity, target = f"User={owner}\n", "multi-user.target"
    variables = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environ.items()
    )
    return f"""[Unit]
Description=MLBench: master, controller, Prometheus, exporter and workers
After=network-online.target
Wants=network-online.target

[Service]
{identity}{variables}ExecStart={words}
Restart=on-failure
RestartSec=5
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy={target}
"""


def _quoted(word: str) -> str:
    """Quote a word as systemd.service(5) says."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("\n", "\\n")
    return f'"{escaped}"'


def _unit_file(system: bool) -> Path:
    if system:
        return Path("/etc/systemd/system") / UNIT
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return config / "systemd" / "user" / UNIT


def _systemctl(system: bool, *words: str) -> None:
    command = ["systemctl", *([] if system else ["--user"]), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StackError(
            f"systemctl: cannot be called ({error.strerror}). Is this systemd?"
        ) from None
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise StackError(f"{' '.join(command)}: {reason}")
