"""Several runs at a time on a real stack: their order, their cores, and equal results."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from tests.conftest import running_stack
from tests.support.stacks import losses, reload, run_to_end


@pytest.fixture(scope="module")
def two_at_a_time(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiClient]:
    folder = tmp_path_factory.mktemp("concurrent")
    environ = {"MLBENCH_CONCURRENT_RUNS": "2", "MLBENCH_FORK_SERVER": "1"}
    with (
        running_stack(prometheus_binary, folder, 1, **environ) as home,
        ApiClient.from_home(home) as client,
    ):
        yield client


def _order(client: ApiClient, name: str) -> Run:
    args = {"epochs": "4"}
    ordered = client.create_run(
        name, 1, benchmark="digits-linear", num_cpus=1, seed=3, queue=True, args=args
    )
    return ordered.result().value


def test_concurrent_runs_have_separate_cores_and_the_losses_of_a_single_run(
    two_at_a_time: ApiClient,
) -> None:
    client = two_at_a_time
    alone = run_to_end(client, _order(client, "alone"))
    runs = [_order(client, f"run {number}") for number in range(3)]
    most_runs = 0
    while any(reload(client, run).active for run in runs):
        busy = [pod for pod in client.get_worker_pods().result().value if pod.run_id is not None]
        cores = [core for pod in busy for core in pod.cpus]
        assert len(cores) == len(set(cores)) == len(busy), "each pod must have its own core"
        most_runs = max(most_runs, len({pod.run_id for pod in busy}))
    assert most_runs == 2
    ended = [reload(client, run) for run in runs]
    assert [run.state for run in ended] == ["FINISHED"] * 3, [run.reason for run in ended]
    started = [run.started_at for run in ended]
    assert started == sorted(started, key=str), "in the order of submission"
    expected = losses(client, alone)
    assert expected
    assert all(losses(client, run) == expected for run in ended), "to the bit"
