"""A process that loads PyTorch once and forks ranks, each of which would take seconds to load it.

The process reads one request per line from stdin, responds with the process id of the fork, and
writes the exit code to a file when the fork has ended. The process and all forks end when stdin is
closed.
"""

import ctypes
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

# Loaded once for all forks. prometheus-client is not loaded here because it reads the environment
# on import.
_LOADED = (
    "sklearn.datasets",
    "torch._dynamo",  # imported by the first optimizer
    "mlbench_worker.data.image_loader",
    "mlbench_worker.training.session",
)
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin ends."""
    for module in _LOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reaps the intermediate processes
    for line in open(0, "rb", buffering=0, closefd=False):  # noqa: SIM115
        if os.fork() == 0:
            _wait_for_fork(json.loads(line))


def _wait_for_fork(request: dict[str, Any]) -> NoReturn:
    """Fork, print the fork's process id, and write its exit code once it has ended."""
    _end_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _become(request)
    os.write(1, b"%d\n" % pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    file = Path(request["code"])
    file.with_suffix(".new").write_text(str(code))
    file.with_suffix(".new").rename(file)
    os._exit(0)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _become(request: dict[str, Any]) -> NoReturn:
    """Run ``python -m MODULE …`` or ``python -c CODE …`` in this fork, and exit."""
    _end_with_parent()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        created = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(request["outputs"][descriptor - 1], created), descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    if hook := request["hook"]:
        sys.path.insert(0, hook)
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")
    kind, what, *arguments = request["command"]
    sys.argv = ["-c", *arguments]
    code = 0
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(what, {"__name__": "__main__"})  # noqa: S102
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
