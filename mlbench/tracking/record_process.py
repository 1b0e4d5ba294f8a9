"""Record this Python process as a run or a rank, without a launcher: ``mlbench.record()``."""

import atexit
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any

from mlbench.contract import names
from mlbench.tracking.job import find_job
from mlbench.tracking.recorder_sidecar import RecorderSidecar


def record(
    name: str | None = None,
    *,
    key: str | None = None,
    workers: int | None = None,
    hide_command: bool = False,
) -> AbstractContextManager[object]:
    """Record this process as a run or a rank, until it ends or a ``with`` block does.

    For a script or notebook without a launcher. In a run of MLBench, or if called again, it does
    nothing. A ``Tracker`` created afterwards records. An exception, or an exit code other than 0,
    fails the run.

    Args:
        name: the name of the run; by default the name of the script or notebook.
        key: a key shared by all ranks of the job, if the launcher does not set one.
        workers: the number of ranks, if the launcher does not set it.
        hide_command: whether to leave out the command line of this process. Otherwise, values that
            look like secrets are masked.

    Raises:
        MLBenchError: only one of URL and token is set, or the rank of this process is unknown.
    """
    if names.ENV_METRICS_FILE in os.environ:
        return _Again()
    job = find_job(os.environ, key=key, workers=workers)
    ipython = sys.modules.get("IPython")
    program, command, shell = sys.argv[0], sys.orig_argv, ipython and ipython.get_ipython()
    if hasattr(shell, "kernel"):  # a notebook, not a terminal
        program = _notebook_path(shell)
        command = [program]
        if job.launcher == "shell":
            job = replace(job, launcher="notebook")
    name = name or Path(program).name or "python"
    sidecar = RecorderSidecar(job, name, command, hide_command=hide_command)
    os.environ.update(sidecar.variables)
    return _End(sidecar, name, shell)


def _notebook_path(shell: Any) -> str:
    """Return the path of the notebook of a kernel, or "notebook" if it is unknown.

    Jupyter's server sets ``$JPY_SESSION_NAME``, Visual Studio Code a variable of the notebook.
    nbconvert and papermill start the kernel, so their command line contains the path.
    """
    session = os.environ.get("JPY_SESSION_NAME", "")
    words = [session, str(shell.user_ns.get("__vsc_ipynb_file__", ""))]
    with suppress(OSError):
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
        words += command.decode(errors="replace").split("\0")
    return next((word for word in words if word.endswith(".ipynb")), "notebook")


class _Again(nullcontext[None]):
    """Does nothing, because this process is already recorded."""

    def __repr__(self) -> str:
        return "this process is recorded already"


class _End(AbstractContextManager[object]):
    """Reports to the sidecar how this interpreter ends.

    A notebook ends as its last cell did, because its idle kernel may be killed.
    """

    def __init__(self, sidecar: RecorderSidecar, name: str, shell: Any) -> None:
        self._sidecar = sidecar
        self._name = name
        self._failure = ""
        self._code = 0
        self._hook = sys.excepthook
        self._owner = os.getpid()
        self._shell = shell
        self._is_shown = False
        sys.excepthook = self._note
        os.register_at_fork(after_in_child=self._sidecar.leave)
        # Handlers run in reverse order, so trackers, which are created later, are closed before.
        atexit.register(self._tell)
        if shell is not None:
            shell.events.register("pre_run_cell", self._begin_cell)
            shell.events.register("post_run_cell", self._end_cell)

    def __repr__(self) -> str:
        self._is_shown = True
        page, url = self._sidecar.run_page(), self._sidecar.url
        waits = f" ({url} has not responded yet)" if url and not page else ""
        return f"{self._name} is recorded: {page or self._sidecar.folder}{waits}"

    def _repr_html_(self) -> str:
        text, page = escape(repr(self)), escape(self._sidecar.run_page())
        link = f'<a href="{page}" target="_blank" rel="noopener">{page}</a>'
        return text.replace(page, link) if page else text

    def _show(self) -> None:
        """Print the address of the run in a notebook; messages of the sidecar go to its server."""
        if self._shell is not None and not self._is_shown:
            print(f"mlbench: {self!r}", file=sys.stderr)

    def __enter__(self) -> None:
        """Start a block; its end ends the recording of a process that continues or is killed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, SystemExit):
            code = error.code
            self._code = code & 0xFF if isinstance(code, int) else int(code is not None)
        elif kind is not None:
            self._code, self._failure = 1, f"{kind.__name__}: {error}"
        else:
            self._code, self._failure = 0, ""
        atexit.unregister(self._tell)
        if self._shell is not None:
            self._show()
            self._shell.events.unregister("pre_run_cell", self._begin_cell)
            self._shell.events.unregister("post_run_cell", self._end_cell)
        if os.getpid() == self._owner:
            self._sidecar.end(self._code, self._failure)
        for variable in self._sidecar.variables:
            os.environ.pop(variable, None)

    def _begin_cell(self, _: object) -> None:
        self._sidecar.rest(None)

    def _end_cell(self, result: Any) -> None:
        self._show()
        error = result.error_before_exec or result.error_in_exec
        self._code = int(error is not None)
        self._failure = f"{type(error).__name__}: {error}" if error else ""
        self._sidecar.rest(self._code, self._failure)

    def _note(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._code, self._failure = 1, f"{kind.__name__}: {error}"
        self._hook(kind, error, trace)

    def _tell(self) -> None:
        if os.getpid() != self._owner:  # a fork
            return
        if not self._code and self._shell is None:
            # sys.excepthook is not called for SystemExit, so the exit code is read at exit.
            with suppress(OSError, AttributeError):
                self._sidecar.end_with_exit()
                return
        self._sidecar.end(self._code, self._failure)
