"""The tests of the pages' modules that need no browser: ``js/*.test.js``, run by Node.js."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent / "js"


def test_the_modules_do_what_their_tests_say() -> None:
    node = os.environ.get("NODE") or shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js: NODE=$(scripts/get-node.sh) fetches it")
    files = sorted(map(str, _FOLDER.glob("*.test.js")))
    command = [node, "--test", "--test-reporter=spec", *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
