"""The tutorials: their commands do what the pages say."""

import re
import shutil
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.cli.common import find_run
from mlbench.local.home import Home
from tests.support.documentation import type_in
from tests.support.known import known

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_OWN_CODE = _ROOT / "docs" / "tutorial-own-code.md"
_COMPARE = _ROOT / "docs" / "tutorial-compare.md"
_COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_own_code_works_as_printed(stack: Home, tmp_path: Path) -> None:
    # A single test: otherwise each pytest process would run the whole page.
    folder = tmp_path / "own code"
    shutil.copytree(_ROOT / "examples" / "tutorial", folder)
    output = ""
    for commands in _COMMANDS.findall(_OWN_CODE.read_text()):
        # One repeat proves as much as three.
        output += type_in(commands.replace("--repeats 3", "--repeats 1"), folder, stack)

    assert "epoch 9: " in output  # the log of the plain script
    assert "data_sha256" in output  # the manifest
    assert "learning_rate" in output  # the difference between two runs
    assert "speed-up" in output
    for name in ("faster.html", "scaling.html"):
        assert "</html>" in (folder / name).read_text()
    assert '"groups": ' in (folder / "scaling.json").read_text()

    with ApiClient.from_home(stack) as client:
        results = {
            name: client.get_result(find_run(client, name).id).result().value
            for name in ("plain", "two", "faster", "shell", "scaling-w1-r1", "scaling-w2-r1")
        }
    assert {result.state for result in results.values()} == {"FINISHED"}
    assert {result.division for result in results.values()} == {"open"}
    plain, two, shell = results["plain"], results["two"], results["shell"]
    assert (plain.target, plain.samples, plain.num_workers) == (None, None, 1)
    assert known(two.time_to_target).training_seconds is not None
    assert {"forward", "backward", "optimizer", "evaluation"} <= two.phases.keys()
    assert two.num_workers == 2
    assert known(shell.time_to_target).training_seconds is None
    assert shell.epochs == 4


def test_a_comparison_works_as_printed(stack: Home, tmp_path: Path) -> None:
    output = ""
    for commands in _COMMANDS.findall(_COMPARE.read_text()):
        if "mlbench up" not in commands:  # the stack is already running
            output += type_in(commands.replace("--repeats 3", "--repeats 1"), tmp_path, stack)
    assert "exchange is local-sgd; the task's rules say" in output
    assert "2 runs, target: " in output
    assert "</html>" in (tmp_path / "exchanges.html").read_text()
    assert output.endswith("verified: nothing is missing or damaged\n")
