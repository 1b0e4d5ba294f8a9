"""Runs the tests of JavaScript modules, ``js/*.test.js``, in Node.js without a browser."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent / "js"


def test_javascript_modules() -> None:
    node = os.environ.get("NODE") or shutil.which("node")
    if node is None:
        pytest.skip("Node.js not found: NODE=$(scripts/get-node.sh) fetches it")
    files = sorted(map(str, _FOLDER.glob("*.test.js")))
    command = [node, "--test", "--test-reporter=spec", *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
