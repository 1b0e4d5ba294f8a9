"""``CONTRIBUTING.md``: the changes it describes, made step by step in a copy of the repository."""

import os
import re
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.documentation import patch
from tests.support.processes import run_text

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "CONTRIBUTING.md").read_text()
_CHANGE = re.compile(r"^## ((?:Change|Add) a \w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^\d\. (.*?)(?=^\d\. |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^    ```(\w+)\n(.*?)^    ```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w./-]+\.(?:py|js|json))`")
_CHANGES = dict(_CHANGE.findall(_PAGE))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository that uses this Python as its .venv."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.mlbench", "*.png")
    copy = tmp_path / "copy"
    shutil.copytree(_ROOT, copy, ignore=left_out)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("change", _CHANGES)
def test_the_ten_minute_change_works_as_written(
    change: str, copy: Path, prometheus_binary: Path
) -> None:
    steps = _STEP.findall(_CHANGES[change])
    assert len(steps) == 5
    for step in steps:
        files = iter(_FILE.findall(step))
        for language, block in _BLOCK.findall(step):
            text = dedent(block)
            if language == "bash":
                _type_in(text, copy, prometheus_binary)
            elif language == "diff":
                patch(next(file for file in files if (copy / file).is_file()), text, copy)
            else:
                new = next(file for file in files if not (copy / file).exists())
                (copy / new).write_text(text)


def _type_in(commands: str, copy: Path, prometheus: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    folders = (copy / name for name in ("", "master", "worker", "exporter"))
    process = run_text(
        ["bash", "-eu"],
        input=commands,
        cwd=copy,
        env={**environ, "PYTHONPATH": ":".join(map(str, folders)), "PROMETHEUS": str(prometheus)},
    )
    assert process.returncode == 0, f"{commands}\n{process.stdout}\n{process.stderr}"
    if "SKIPPED" in process.stdout:
        pytest.skip(process.stdout)
