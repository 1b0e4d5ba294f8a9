"""A process that has PyTorch loaded and forks ranks, each of which would take seconds to load it.

It reads a request a line from stdin, answers with the process id of the fork, and writes the exit
code to a file when the fork has ended. It ends, with all forks, when its stdin does.
"""

import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

# Loaded once, for all. Not prometheus-client: it looks at the environment when it is imported.
_LOADED = (
    "sklearn.datasets",
    "torch._dynamo",  # by the first optimizer
    "mlbench_worker.data.image_loader",
    "mlbench_worker.training.session",
)
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin ends."""
    for module in _LOADED:
        importlib.import_module(module)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    code_files: dict[int, Path] = {}
    requests = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
        while code_files and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            file, code = code_files.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])
            file.with_suffix(".new").write_text(str(code))
            file.with_suffix(".new").rename(file)
        if 0 in ready:
            line = requests.readline()
            if not line:
                return
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                _become(request)
            code_files[pid] = Path(request["code"])
            os.write(1, b"%d\n" % pid)


def _become(request: dict[str, Any]) -> None:
    """Run ``python -m MODULE …`` or ``python -c CODE …`` in this fork, and exit."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        created = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(request["outputs"][descriptor - 1], created), descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
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
