"""The run that a new user sees: digits on two workers, to its target, with all its figures."""

import io
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.processes import run_text
from tests.support.stacks import assert_counted, run_to_end

_README = Path(__file__).parents[2] / "README.md"
# Lines that depend on the machine's load, on tokens in addresses, or on the command.
_SOMETIMES = {"CPU contention", "Queue", "Prometheus", "API", "Details"}


def _labels(printed: str) -> list[str]:
    """Return the labels of a run's printed result, up to the end of a code block.

    Lines with percentages are skipped, because they differ from run to run.
    """
    lines = re.sub(r"^.*\d%.*\n", "", printed.partition("```")[0], flags=re.M).splitlines()[1:]
    labels = [re.split(r"\s{2,}|: ", line.strip())[0] for line in lines if line[:1].strip()]
    return [label for label in labels if label not in _SOMETIMES]


@pytest.mark.slow
def test_digits_reaches_its_target(client: ApiClient, stack: Home) -> None:
    ordered = client.create_run("first", 2, None, benchmark="digits").result().value
    ended = run_to_end(client, ordered, seconds=100)
    result = client.get_result(ended.id).result().value
    manifest = client.get_manifest(ended.id).result().value
    assert ended.state == "FINISHED", ended.reason
    assert_counted(ended)
    assert known(ended.delivery).recorded > 500

    assert result.division == "closed"
    # The code may be changed in this checkout; nothing else departs from the rules.
    assert set(result.rule_violations) <= {"the code that ran has changes that are not committed"}
    assert known(result.last_value) >= 97
    assert result.time_to_target is not None
    assert 0 < known(result.time_to_target.training_seconds) < result.time_to_target.wall_seconds
    assert known(result.samples_per_second) > 0
    phases = {"data", "forward", "backward", "communication", "optimizer", "metrics"}
    assert result.phases.keys() == {*phases, "evaluation", "other"}
    # The phases make up the training time, except the time between them.
    assert result.phases["other"] < 0.2 * known(result.training_seconds)
    worker_seconds = known(result.cost).worker_seconds
    assert 2 * known(result.training_seconds) < worker_seconds
    # The cost is the sum of the goodput buckets, which begin when the run leaves the queue.
    bucket_seconds = sum(known(result.goodput).seconds.values())
    assert abs(worker_seconds - bucket_seconds) < 0.001
    assert -0.001 < bucket_seconds - 2 * known(result.wall_seconds) < 10
    # The machines of both ranks are known.
    [machine] = manifest.machines
    assert machine.ranks == (0, 1)
    assert machine.packages["torch"].startswith("2.")
    assert machine.memory_bytes
    for rank in manifest.ranks:
        assert (
            abs(known(rank.clock_offset_seconds))
            <= known(rank.clock_uncertainty_seconds) + 0.001
            < 1
        )
    # The sentence that MLBench's tasks end with, where MLBench's users look for it.
    client.download(ended.id, downloaded := io.BytesIO())
    official = zipfile.ZipFile(downloaded).read("official_result.txt").decode()
    assert official.startswith("97% Top 1 Validation Accuracy reached in ")
    # The README shows a part of the output of such a run.
    shown = run_text(
        [sys.executable, "-m", "mlbench", "status", str(ended.id)],
        env={**os.environ, names.ENV_HOME: str(stack.root)},
        check=True,
    )
    in_readme = _labels(_README.read_text().partition("```\nrun 1 (")[2])
    assert len(in_readme) > 4
    assert [label for label in _labels(shown.stdout) if label in in_readme] == in_readme

    def used_cores() -> bool:
        pod = client.get_pod_metrics(ended.ranks[0].pod, last_n=1).result().value
        [*_, used] = pod.get("container_cpu_usage_seconds_total", [None])
        return used is not None and float(used.value) > 1

    wait_for(used_cores, what="the exporter saw the worker work")
