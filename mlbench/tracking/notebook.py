"""The IPython shell and the notebook of this process."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


def current_shell() -> Any:
    """Return the IPython shell of this process, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def is_notebook(shell: Any) -> bool:
    """Return whether a shell is the kernel of a notebook, not a terminal."""
    return hasattr(shell, "kernel")


def notebook_path(shell: Any) -> str:
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
