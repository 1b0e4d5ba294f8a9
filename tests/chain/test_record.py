"""``mlbench record`` with a real stack, from the start of a command to the archive of its run."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import free_port, wait_for
from tests.support.known import known
from tests.support.processes import run_text
from tests.support.recorded import RECORD, STEPS, at_stack, run_of, sealed
from tests.support.stacks import kill_service, losses, order_command, run_to_end

_RANKS = 16

_TRAINING = Path(__file__).parents[2] / "examples" / "record" / "train.py"


@pytest.mark.slow
def test_16_processes_join_one_run_while_the_api_is_killed(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    steps = 120
    ranks = random.Random(3).sample(range(_RANKS), _RANKS)  # noqa: S311 - an order, no secret
    user = at_stack(stack, tmp_path)
    job = ["--workers", str(_RANKS), "--key", "job", "--name", "many"]
    command = [*RECORD, *job, "--", "sh", "-c", STEPS, str(steps), "0.2"]

    def joined() -> list[Run]:
        return [run for run in client.get_runs().result().value if run.title == "many"]

    processes = [
        subprocess.Popen(command, env={**user, "RANK": str(rank)}, stderr=subprocess.PIPE)
        for rank in ranks
    ]
    wait_for(joined, what="the first process has joined")
    for _ in range(3):
        kill_service(stack, "gunicorn")
    errors = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * _RANKS, errors
    [run] = joined()
    ended = sealed(client, run)
    assert (ended.state, ended.num_workers) == ("FINISHED", _RANKS), (ended.reason, errors)
    for rank in range(_RANKS):
        assert losses(client, ended, rank) == [*range(steps)]
    assert known(ended.delivery).recorded >= _RANKS * steps
    assert not (tmp_path / "recorded").exists()


@pytest.mark.slow
def test_a_recorded_job_has_exactly_the_losses_of_a_submitted_run(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, str(_TRAINING)]
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node=2"]
    launch = [*torchrun, f"--master-port={free_port()}", "--no-python", *RECORD, "--", *command]
    launched = run_text(launch, env=at_stack(stack, tmp_path), check=True)
    recorded = sealed(client, run_of(client, launched.stderr))
    order = order_command(client, "same", " ".join(command), num_workers=2)
    ordered = sealed(client, run_to_end(client, order, 200))
    assert (recorded.state, ordered.state) == ("FINISHED", "FINISHED")
    for rank in (0, 1):
        recorded_losses = losses(client, recorded, rank)
        assert len(recorded_losses) == 400
        assert recorded_losses == losses(client, ordered, rank)
    manifests = [client.get_manifest(run.id).result().value for run in (recorded, ordered)]
    assert [manifest.launcher for manifest in manifests] == ["torchrun", ""]
    assert manifests[0].machines[0].packages == manifests[1].machines[0].packages


# The script saves every 10 steps, and both processes fail once, after 25 steps.
_FAILING = """
import json, os, sys, time
from pathlib import Path
from mlbench import Tracker

with Tracker() as tracker:
    saved = Path(sys.argv[1], os.environ["RANK"])
    if failed := saved.exists():
        tracker.load_state_dict(json.loads(saved.read_text()))
    tracker.epoch(0)
    while tracker.steps < 40:
        time.sleep(0.1)
        tracker.step(samples=1)
        if tracker.steps % 10 == 0:
            with tracker.phase("checkpoint"):
                time.sleep(0.1)
                saved.write_text(json.dumps(tracker.state_dict()))
            tracker.checkpoint(100)
        if tracker.steps == 25 and not failed:
            sys.exit(1)
"""


@pytest.mark.slow
def test_restarts_by_torchrun_agree_with_the_formula(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    """Restarts are attempts only if torchrun starts the recorders, not the reverse."""
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--max-restarts=1"]
    (tmp_path / "train.py").write_text(_FAILING)
    processes = []
    for name in ("inside", "around"):
        (tmp_path / name).mkdir()
        record = [*RECORD, "--name", name, "--"]
        launch = [*torchrun, "--nproc-per-node=2", f"--master-port={free_port()}", "--no-python"]
        launch = [*launch, *record] if name == "inside" else [*record, *launch]
        command = [*launch, sys.executable, "train.py", name]
        environ = at_stack(stack, tmp_path / name)
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environ))
    assert [process.wait(120) for process in processes] == [0, 0]
    by_title = {run.title: run for run in client.get_runs().result().value}
    runs = [sealed(client, by_title[name]) for name in ("inside", "around")]
    assert [(run.state, run.attempt) for run in runs] == [("FINISHED", 2), ("FINISHED", 1)]
    compared = client.compare([run.id for run in runs]).result().value
    assert [len(result.resumptions) for result in compared.results] == [1, 1]
    assert [resumption.discarded_steps for resumption in compared.results[0].resumptions] == [5]
    assert [group.failures for group in compared.failures] == [1, 1]
    for group in compared.failures:
        assert group.interval_seconds == pytest.approx(1, abs=0.3)
        assert known(group.restart_seconds) > 0


@pytest.mark.slow
def test_equal_job_keys_of_two_users_are_separate_runs(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    before = {run.id for run in client.get_runs().result().value}
    command, processes = [*RECORD, "--workers", "2"], []
    for number in range(10):  # both users have the same keys
        environ = at_stack(stack, tmp_path / str(number // 5), f"user-{number // 5}")
        job = ["--key", f"key-{number % 5}", "--name", str(number), "--", "sh", "-c", STEPS]
        for rank in (1, 0):
            argv = [*command, *job, str(number + 1), "0.1"]
            processes.append(subprocess.Popen(argv, env={**environ, "RANK": str(rank)}))
    assert {process.wait(120) for process in processes} == {0}
    runs = [run for run in client.get_runs().result().value if run.id not in before]
    assert sorted(int(run.title) for run in runs) == [*range(10)]
    for run in runs:
        ended = sealed(client, run)
        assert ended.state == "FINISHED"
        for rank in (0, 1):
            assert losses(client, ended, rank) == [*range(int(run.title) + 1)]


def test_a_recorded_job_can_be_stopped(client: ApiClient, stack: Home, tmp_path: Path) -> None:
    code = "trap 'echo stopping; exit 9' TERM; while :; do sleep 0.1; done"
    command = [*RECORD, "--name", "stopped", "--", "sh", "-c", code]
    with subprocess.Popen(
        command, env=at_stack(stack, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr
        run = run_of(client, process.stderr.readline())
        client.stop_run(run.id).result()
        assert process.communicate(timeout=30)[0] == b"stopping\n"
        assert process.returncode == 9
    assert run_to_end(client, run).state == "STOPPED"
