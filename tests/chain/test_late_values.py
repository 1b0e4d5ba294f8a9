"""Values that arrive after their rank was lost are stored."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.stacks import order_command, reload, run_to_end

# Longer than the controller waits until it considers the rank of a silent agent lost.
_SILENT_SECONDS = 40.0

_VALUES = r"""
import itertools, os, time
from mlbench import Tracker
t = Tracker()
with open(f"written-{os.environ['RANK']}", "w", buffering=1) as written:
    for i in itertools.count(1):
        t.log(v=i, step=i)
        written.write(f"{i}\n")
        time.sleep(0.02)
"""


@pytest.mark.slow
def test_a_resumed_agent_ships_all_values_of_its_lost_rank(own_stack: Home, tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(_VALUES)
    with ApiClient.from_home(own_stack) as client:
        command = f"{sys.executable} values.py"
        run = order_command(client, "silent", command, num_workers=2, working_dir=str(tmp_path))

        def values(rank: int) -> list[float]:
            series = client.get_run_metrics(run.id).result().value
            return [point.number for point in series.get(f"v @ {rank}", [])]

        def written(rank: int) -> list[float]:
            lines = (tmp_path / f"written-{rank}").read_text().splitlines()
            return list(map(float, lines))

        wait_for(lambda: values(0) and values(1), what="both ranks have values")
        agent = _agent_of(own_stack, known(reload(client, run).ranks[0].pod))
        agent.suspend()
        time.sleep(_SILENT_SECONDS)
        agent.resume()
        ended = run_to_end(client, run)
        assert (ended.state, "rank 0 is lost" in ended.reason) == ("FAILED", True)
        wait_for(lambda: values(0) == written(0), what="the late values have arrived")
        assert values(1) == written(1)
        ended = reload(client, run)
        # The step of each value is a sample too.
        late = 2 * len(written(0)) + 2 * len(written(1)) - known(ended.delivery).recorded
        assert late > 1000

        def counted() -> int:
            return known(reload(client, run).added).of_lost_ranks

        wait_for(lambda: counted() >= late, what="the late samples are counted")


def _agent_of(home: Home, pod: str) -> psutil.Process:
    """Return the agent of a worker."""
    arguments = {"mlbench_worker.agent", pod, str(home.root / "workers" / pod)}
    [agent] = [
        process
        for process in psutil.process_iter(["cmdline"])
        if arguments <= {*(process.info["cmdline"] or ())}
    ]
    return agent
