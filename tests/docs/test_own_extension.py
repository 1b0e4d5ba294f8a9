"""``docs/architecture.md``: the printed extension (source, view and benchmark) works."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_text

_PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[Ss]ave (?:this|it) as `([\w./]+)`")
# The stack runs in this environment, so pip installs into a separate folder.
_SHELL = """
pip() { "$PY" -m pip install --quiet --no-deps --no-build-isolation --target "$SITE" "${@:2}"; }
mlbench() { "$PY" -P -m mlbench "$@"; }
"""


@pytest.mark.slow
def test_the_ten_minute_extension_works_as_written(tmp_path: Path, prometheus_binary: Path) -> None:
    steps = _PAGE.partition("## Your own extension in ten minutes")[2]
    at, typed = 0, []
    for block in _BLOCK.finditer(steps):
        language, text = block.groups()
        if language == "bash":
            typed.append(text)
        else:
            [name] = _FILE.findall(steps[at : block.start()])
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        at = block.end()
    assert len(typed) == 1
    site = tmp_path / "site"
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environ |= {
        "PY": sys.executable,
        "SITE": str(site),
        "PYTHONPATH": str(site),
        "MLBENCH_HOME": str(tmp_path / "home"),
        "PROMETHEUS": str(prometheus_binary),
    }
    try:
        commands = f"{_SHELL}{typed[0]}\n$PY read.py"
        process = run_text(["bash", "-eu"], input=commands, cwd=tmp_path, env=environ)
    finally:
        down = [sys.executable, "-P", "-m", "mlbench", "down"]
        run_text(down, cwd=tmp_path, env=environ)
    assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
    assert "pi @ 1" in process.stdout
    assert re.search(r"score @ 0.*0\.5", process.stdout, re.DOTALL)
    assert process.stdout.endswith("estimate FINISHED on 2 workers\n")
