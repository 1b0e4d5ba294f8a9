"""External interruptions of the ``mlbench`` command cause no traceback."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mlbench.__main__ import main


class Interrupted(ModuleType):
    """A module whose import is interrupted by Ctrl-C."""

    def __getattr__(self, name: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_during_startup_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlbench.cli", Interrupted("mlbench.cli"))
    with pytest.raises(SystemExit, match=r"^130$"):
        main()


def test_a_full_disk_is_reported_in_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "mlbench", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "mlbench: No space left on device: the output is not whole\n"
