"""``docs/slow-run.md``: its commands find the faults in its script, and its diff repairs them."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.cli.common import find_run
from mlbench.contract import names
from mlbench.contract.results import Result
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.documentation import environ_of, patch, type_in
from tests.support.known import known

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(bash|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Causes that occur only on a busy machine. All others are in the script.
_BUSY_MACHINE = {"contention", "startup"}


def test_the_faults_are_found_and_repaired_as_printed(
    stack: Home, client: ApiClient, tmp_path: Path
) -> None:
    shutil.copytree(_ROOT / "examples" / "slow_run", tmp_path, dirs_exist_ok=True)
    output = ""
    profiled = None
    for language, text in _BLOCK.findall((_ROOT / "docs" / "slow-run.md").read_text()):
        if language == "diff":
            patch("train.py", text, tmp_path)
        elif "--name profiled" in text:  # in the first terminal
            profiled = subprocess.Popen(
                ["bash", "-euc", f"exec {text}"],
                cwd=tmp_path,
                env=environ_of(stack),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            wait_for(lambda: _trains(client, "profiled"), what="the run trains")
        else:
            output += type_in(text, tmp_path, stack)
            if profiled and "mlbench profile" in text:
                os.killpg(profiled.pid, signal.SIGINT)
                profiled.wait()

    slow, fixed = (
        client.get_result(find_run(client, name).id).result().value for name in ("slow", "fixed")
    )
    assert _script_faults(slow)[0] == "data"
    assert known(slow.stragglers).named == 0
    assert not {"data", "straggler"} & set(_script_faults(fixed))
    assert known(fixed.training_seconds) < known(slow.training_seconds) / 2
    assert re.search(r"^ *train\.py:\d+ time\.sleep\(0\.006\)", output, re.MULTILINE)
    assert re.search(r"^ *train\.py:\d+ time\.sleep\(0\.03\)", output, re.MULTILINE)
    assert "Training waits for data." in output
    assert re.search(r"^Without .*\bdata\b.*: predicted ", output, re.MULTILINE)


def _trains(client: ApiClient, name: str) -> bool:
    run = client.find_run(name)
    return run is not None and bool(
        client.get_run_metrics(run.id, metric_filter=names.SAMPLED_STEP, last_n=1).result().value
    )


def _script_faults(result: Result) -> list[str]:
    return [f.rule for f in result.findings if f.rule not in _BUSY_MACHINE]
