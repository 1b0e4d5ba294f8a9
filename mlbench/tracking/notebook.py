"""The notebook that a process of IPython runs: its cells, and its name."""

import os
import sys
from pathlib import Path
from typing import Any

_SUFFIX = ".ipynb"


def current_shell() -> Any:
    """Return the IPython shell of this process; None if there is none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def is_notebook(shell: Any) -> bool:
    """Check that a shell is a kernel, as notebooks have; a terminal's is not."""
    return hasattr(shell, "kernel")


def notebook_path(shell: Any) -> str:
    """Return the path of the notebook that a kernel runs, or "notebook" if nothing tells it.

    Jupyter's server sets ``$JPY_SESSION_NAME``, Visual Studio Code a variable of the notebook.
    nbconvert and papermill start the kernel, so their command names it.
    """
    session = os.environ.get("JPY_SESSION_NAME", "")
    words = [session, str(shell.user_ns.get("__vsc_ipynb_file__", "")), *_parent_command()]
    return next((word for word in words if word.endswith(_SUFFIX)), "notebook")


def _parent_command() -> list[str]:
    try:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    except OSError:
        return []
    return command.decode(errors="replace").split("\0")
